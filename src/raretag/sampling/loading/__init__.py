"""Samplers for a `DataLoader` of your own."""
