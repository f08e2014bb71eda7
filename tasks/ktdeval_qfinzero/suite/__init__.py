"""Scoring tasks: items put to a model, its calls recorded or made, and their scores."""
