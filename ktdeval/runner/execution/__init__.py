"""Execution of a run: its episodes, with calls made one by one or in batches."""
