"""Static site of a board: its data files, its pages, and what they are written with."""
