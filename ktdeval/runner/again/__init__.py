"""Reuse of recorded decisions: forks call the model again for a step; transplants execute the
recorded orders with other capital.
"""
