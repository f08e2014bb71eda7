"""Workers of a grid: the units that they claim, run and gather."""
