"""Execution of a run: its episodes, here or in batches."""
