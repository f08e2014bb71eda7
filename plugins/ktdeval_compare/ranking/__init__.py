"""How much of a ranking is due to luck."""
