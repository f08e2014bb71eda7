"""Results before and after the training cutoff of a model."""
