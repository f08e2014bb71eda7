"""Batches of calls: what a provider answers within a day at a lower price, and how a run waits for it."""
