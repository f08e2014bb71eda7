"""Fields of result cards, one object per field. The object says how the field is gathered from a
run's records or derived from the card's own facts, and contains its rows, checks and wording.
`FIELDS` in `all_fields.py` lists every field.
"""
