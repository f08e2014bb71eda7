"""Secrets in foreign text: how they may be written, and their removal."""
