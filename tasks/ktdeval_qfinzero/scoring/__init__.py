"""Scorers of the QFinZero tool-calling and planning suites: the public code's rules and the
paper's, side by side.
"""
