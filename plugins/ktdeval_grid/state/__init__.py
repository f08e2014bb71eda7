"""State of a grid: its records in the store, its control and its status."""
