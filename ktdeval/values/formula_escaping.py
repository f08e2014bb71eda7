"""Text from third parties in files that spreadsheets open."""

from __future__ import annotations

from typing import Final

_FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r")


def without_formula(text: str) -> str:
    """Return the text of a cell, prefixed with an apostrophe if a spreadsheet would take it for a
    formula.
    """
    if text.startswith(_FORMULA_STARTS):
        return f"'{text}"
    return text
