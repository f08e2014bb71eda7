"""Detection limit of memory: the smallest amount of memory that an evaluation can detect."""
