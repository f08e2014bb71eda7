"""Scoring tasks: items put to a model, its calls recorded or executed, and their scores."""
