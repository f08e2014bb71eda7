"""Fields of result cards, one module for each concern: its types, how it is gathered from a run's
records, derived from the card's own entries and checked, and its words for readers.
"""
