"""Backbones, by name: inputs to features [B, D]. Heads, from features to logits [B, C], live in `models.heads`."""
