"""Pairwise comparison of cards, with tests corrected over a table."""
