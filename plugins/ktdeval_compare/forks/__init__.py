"""Forks: decisions repeated with one input changed."""
