"""Readers of the forms in which boards publish decisions and accounts."""
