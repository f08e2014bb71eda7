"""Detection limit of memory: how little of it an evaluation can see."""
