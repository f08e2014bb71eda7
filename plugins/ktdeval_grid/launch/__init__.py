"""Launching a grid: the driver, its workers, and what is displayed."""
