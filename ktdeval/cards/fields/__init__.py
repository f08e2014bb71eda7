"""Fields of result cards, one object per field: how it is gathered from a run's records or derived
from the card's own facts, plus its rows, checks and wording. `FIELDS` in `all_fields.py` lists them
all.
"""
