"""From features [B, D] to logits [B, C]."""
