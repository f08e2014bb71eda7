"""Study of results before and after the cutoff of a model's training data."""
