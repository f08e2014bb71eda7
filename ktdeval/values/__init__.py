"""Values that cross files and processes, and how they are read and written."""
