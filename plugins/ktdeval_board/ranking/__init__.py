"""Ranking of a board's cards, and all texts of pages on several cards: pure functions of a board
and of daily series.
"""
