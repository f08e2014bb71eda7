"""The benchmark: generated instructions with gold calls that were executed."""
