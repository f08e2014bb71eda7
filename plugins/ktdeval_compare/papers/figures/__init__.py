"""Figures of papers, made from the user's own runs: their data and their drawing."""
