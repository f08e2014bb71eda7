"""Workers of a grid, and the units that they claim, run and gather."""
