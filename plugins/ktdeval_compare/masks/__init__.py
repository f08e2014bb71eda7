"""Effects of masks and modes."""
