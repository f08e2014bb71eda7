"""Embedded market of fictional companies, crypto assets, options, events and news, generated from a
seed.
"""
