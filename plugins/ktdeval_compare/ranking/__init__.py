"""Rankings: how much of one is luck."""
