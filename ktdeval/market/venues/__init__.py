"""Venues: the rules under which an instrument trades, and what a fill costs."""
