"""Scoring tasks: items put to a model, its calls recorded or made, and what they earn."""
