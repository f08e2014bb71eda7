"""Variance of a metric, split by factor."""
