"""Checks of market data: each finds one kind of fault, and some can repair it."""
