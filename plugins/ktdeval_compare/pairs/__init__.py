"""Pairwise comparison of cards, with tests corrected over all rows of a table."""
