"""What several drawings need: the canvas, runs, and the labels and logits behind them."""
