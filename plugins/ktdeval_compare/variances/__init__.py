"""Decomposition of a metric's variance by factor."""
