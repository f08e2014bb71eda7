"""Variance of a metric, decomposed by factor."""
