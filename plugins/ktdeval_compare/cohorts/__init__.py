"""Comparison of model cohorts."""
