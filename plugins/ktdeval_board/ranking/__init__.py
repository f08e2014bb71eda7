"""Ranking of a board's cards, and everything that pages say of them together: pure functions of a
board and of daily series.
"""
