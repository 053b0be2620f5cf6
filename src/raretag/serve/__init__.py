"""A trained model at work: loaded from its folder, asked for predictions, tuned, exported."""
