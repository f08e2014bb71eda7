"""Detection limit for memory: the smallest amount of memory that an evaluation can detect."""
