"""Comparison of cards by cell: by regime, venue or year."""
