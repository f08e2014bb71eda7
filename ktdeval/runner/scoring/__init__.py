"""Scoring and verification: cards from records, and records checked."""
