"""What several drawings need: the canvas, runs, and the labels and logits behind them."""

from raretag.core.lazy import needed

needed("matplotlib", "figures", "A picture")  # before any file of this room imports it
