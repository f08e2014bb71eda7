"""Snapshots: a market as one immutable value, and its storage."""
