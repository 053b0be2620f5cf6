"""From raw items to the tensors of a batch: images, texts, features. Each describes itself in JSON, to be shipped."""
