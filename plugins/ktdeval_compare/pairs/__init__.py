"""Comparison of cards in pairs, with tests corrected over a table."""
