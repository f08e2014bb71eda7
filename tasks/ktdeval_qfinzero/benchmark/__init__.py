"""Benchmark: generated instructions with gold calls that were executed."""
