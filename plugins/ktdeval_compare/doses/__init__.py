"""Detection limit of memory: the smallest amount of it that an evaluation can detect."""
