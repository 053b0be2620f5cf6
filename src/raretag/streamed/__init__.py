"""Many labels: a linear head and its objective without a B x C matrix of logits."""
