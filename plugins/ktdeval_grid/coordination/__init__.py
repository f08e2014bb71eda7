"""Coordination of workers by files that they share: claims, heartbeats, sums."""
