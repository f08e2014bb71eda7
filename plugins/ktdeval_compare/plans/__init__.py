"""Power of a plan of windows and seeds, and of published designs."""
