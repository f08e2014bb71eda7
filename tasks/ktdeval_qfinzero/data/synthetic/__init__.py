"""Embedded market: invented companies, coins, options, events and news, generated from a seed."""
