"""Reuse of recorded decisions. Forks call the model again at a recorded step; transplants execute
the recorded orders with different capital.
"""
