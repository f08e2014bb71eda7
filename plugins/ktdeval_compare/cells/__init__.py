"""Comparison cell by cell: by regime, venue or year."""
