"""Sandboxes of programs: what is started in them, and what it can reach."""
