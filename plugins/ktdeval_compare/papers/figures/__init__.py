"""Figures of papers of one's own runs: their data, and how these are drawn."""
