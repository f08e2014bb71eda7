"""Texts of others in files that spreadsheets open."""

from __future__ import annotations

from typing import Final

_FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r")


def without_formula(text: str) -> str:
    """Return the text of a cell; one that a spreadsheet would take for a formula begins with an
    apostrophe.
    """
    if text.startswith(_FORMULA_STARTS):
        return f"'{text}"
    return text
