"""Plugins: where they are found, how they are imported and checked, and their registry."""
