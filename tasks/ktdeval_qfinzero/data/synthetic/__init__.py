"""Embedded market: fictional companies, coins, options, events and news, generated from a seed."""
