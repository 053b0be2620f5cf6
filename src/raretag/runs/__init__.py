"""A run folder as objects: its record, its card, what explains it. Written by the engine, opened by everyone else."""
