"""Files and folders: read with care, written as a whole, locked, undone."""
