"""Checks of market data. Each finds one kind of fault; some of these can be repaired."""
