"""Adapters: one for each vendor's protocol."""
