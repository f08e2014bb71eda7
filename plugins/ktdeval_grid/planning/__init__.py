"""Plans of grids: their fields, the cells that they leave out, and what they will cost."""
