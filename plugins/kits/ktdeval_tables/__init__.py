"""Kit that reads the tables that people bring: prices, files beside them, decisions, trades, account values.

A library of plugins, not a plugin: it registers nothing and imports no other plugin.
"""
