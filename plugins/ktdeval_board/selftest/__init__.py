"""Self-test of a board: its check is given a forgery from each family and must refuse each by the
right rule.
"""
