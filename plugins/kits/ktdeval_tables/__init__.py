"""Kit that reads users' tables: prices, accompanying files, decisions, trades, account values.

It is a library for plugins, not a plugin: it registers nothing and imports no other plugin.
"""
