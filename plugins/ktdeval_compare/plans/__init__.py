"""Power of a plan with given numbers of windows and seeds, and power of published designs."""
