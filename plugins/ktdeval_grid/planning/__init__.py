"""Plans for grids: their fields, the cells that they omit, and their estimated costs."""
