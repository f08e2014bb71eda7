"""Launch of a grid: its driver, its workers, and what it shows."""
