"""Execution of a run: its episodes, whose calls are made individually or in batches."""
