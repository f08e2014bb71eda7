"""Plans for grids: their fields, the cells they omit, and their estimated costs."""
