"""Study of results before and after the end of a model's training data."""
