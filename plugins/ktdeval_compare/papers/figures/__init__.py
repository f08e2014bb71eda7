"""Figures of papers, made from the user's own runs: computing and drawing their data."""
