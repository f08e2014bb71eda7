"""Plans of grids: what they hold, which cells they leave out, and what they will take."""
