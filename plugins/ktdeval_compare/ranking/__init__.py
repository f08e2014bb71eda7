"""Rankings: how much of a ranking is luck."""
