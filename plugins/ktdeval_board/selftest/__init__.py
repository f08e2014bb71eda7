"""Self-test of a board: its check is given a forgery of each family, and must refuse each by its rule."""
