"""Pooled estimates over windows and markets."""
