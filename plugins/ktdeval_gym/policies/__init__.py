"""Policies that are trained: what on, how they are rolled out, and which checks they pass."""
