"""Figures from papers, made from the user's own runs: computing and drawing the data."""
