"""Measures of how much of a ranking is due to luck."""
