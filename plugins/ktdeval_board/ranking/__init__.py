"""Ranking of a board's cards, and all texts on pages about several cards. The functions are pure
and depend only on a board and its daily series.
"""
