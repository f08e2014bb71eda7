"""Forks: decisions that are repeated with one input changed."""
