"""Comparison of cohorts of models."""
