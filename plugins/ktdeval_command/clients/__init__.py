"""Agent `remote`: clients that ktdeval can't start."""
