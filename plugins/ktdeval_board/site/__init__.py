"""Static site of a board: its data files, its pages, and the code that writes them."""
