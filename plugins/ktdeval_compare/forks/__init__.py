"""Forks: decisions asked again with one input changed."""
