"""Scoring and verification: cards are made from records, and records are checked."""
