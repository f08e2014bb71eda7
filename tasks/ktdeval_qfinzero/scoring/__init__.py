"""Scorers for the QFinZero tool-calling and planning suites, with the rules of the public code and
of the paper side by side.
"""
