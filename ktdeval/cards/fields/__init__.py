"""Fields of result cards, one object for each: how it is gathered from a run's records or derived
from the card's own facts, its rows, its checks and its words. `FIELDS` in `all_fields.py` has them all.
"""
