"""Power of a plan with given windows and seeds, and of published designs."""
