"""Third-party text in files that spreadsheets open."""

from __future__ import annotations

from typing import Final

_FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r")


def without_formula(text: str) -> str:
    """Return the text of a cell. It is prefixed with an apostrophe if a spreadsheet would interpret
    it as a formula.
    """
    if text.startswith(_FORMULA_STARTS):
        return f"'{text}"
    return text
