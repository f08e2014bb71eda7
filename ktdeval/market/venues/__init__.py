"""Venues: the rules under which an instrument trades, and the cost of a fill."""
