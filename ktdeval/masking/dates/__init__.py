"""Dates in a text: days, weeks, months, periods and events, in many spellings and languages."""
