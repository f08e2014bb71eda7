"""Judge decisions and returns made anywhere."""
