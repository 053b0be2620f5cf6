"""Training, exact to the bit after a resume. Knows data, models and methods by name only, and no paper."""
