"""Files of a forward test: its folder, its chain of entries, and its decision records."""
