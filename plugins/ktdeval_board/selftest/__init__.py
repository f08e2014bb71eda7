"""Self-test of a board: its check is given forged submissions of every known kind, and must refuse
each by its rule.
"""
