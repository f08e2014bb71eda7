"""Snapshots: a market as one immutable value, and how it is stored."""
