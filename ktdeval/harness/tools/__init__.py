"""Tools as typed functions, and calls of them, as a protocol or as text."""
