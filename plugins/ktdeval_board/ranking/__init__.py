"""Ranking of a board's cards, and all texts on pages about several cards: pure functions of a board
and daily series.
"""
