"""Comparison by cells: by regime, venue or year."""
