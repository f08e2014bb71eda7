"""Numbers in table cells."""

from __future__ import annotations

import re
from collections.abc import Iterable, MutableMapping
from pathlib import Path

import numpy as np
import pandas as pd

from ktdeval.errors import DataError
from ktdeval_tables.currency_detection import sign_before
from ktdeval_tables.readers.text_encoding import at_line, shown_cell

POINT, COMMA, UNCLEAR = "point", "comma", "unclear"  #: decimal marks
MISSING = (
    "", "#N/A", "<NA>", "N/A", "NA", "NULL", "NaN", "NaT", "None", "n/a", "nan", "null",
    "-", "--", "—",
)  #: cells without a value, in any column but codes  # fmt: skip
_NOTHING = frozenset(word.lower() for word in MISSING)
_SIGNS = "^([+-]?)[$¥\uffe5€£]"
_SIGN_INSIDE = "^([$¥\uffe5€£])-"
_CURRENCY = r"^(?:US\$|HK\$|R\$|[A-Z]{3} )|(?: ?(?:USDT|USD|EUR|GBP|CNY|HKD|JPY|INR|CHF)| [A-Z]{3}| ?[€£元])$"
_UNIT = r"(?<=[0-9])\s*(?:shares?|shrs?|units?|pcs|coins?|Stk\.?|Stück|股|份|张|枚|个|주|株|[A-Z][A-Z0-9]{1,9})$"
"""Unit of a count at the end of a cell, such as `100股` or `0.05BTC`."""
_TIMES = {"k": 1e3, "m": 1e6, "b": 1e9, "t": 1e12, "万": 1e4, "亿": 1e8}
"""Letters after a number, as in `63.09M` or `1.2亿`."""

NUMBER = re.compile(r"[+-]?[$¥\uffe5€£]?[0-9][0-9.,]*(?:[eE][+-]?[0-9]+)?[%KMBkmb万亿]?")
"""A cell that looks like a number, possibly with currency signs, grouping and letters after it."""
PLAIN = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
# matches 1,234.5 and 12,34,567, but not 10,25, in which the comma is a decimal mark
_GROUPED = r"[+-]?[1-9][0-9]{0,2}(?:,[0-9]{2,3})*,[0-9]{3}(?:\.[0-9]*)?"
_COMMA_DECIMAL = r"[+-]?(?:[0-9]+|[0-9]{1,3}(?:[.  ][0-9]{3})+)(?:,[0-9]*)?(?:[eE][+-]?[0-9]+)?"
_ONLY_DECIMAL = r"[+-]?(?:[0-9]{1,3}(?:\.[0-9]{3})+,[0-9]+|[0-9]+,(?:[0-9]{1,2}|[0-9]{4,})|[0-9]{4,},[0-9]+|0,[0-9]+)"
_GROUPED_BY_POINTS = r"[1-9][0-9]{0,2}(?:\.[0-9]{3})+"
_COMMA_AND_POINT = r"[+-]?[0-9]{1,3}(?:,[0-9]{3})+\.[0-9]*"


def decimal_mark(cells: Iterable[str]) -> str:
    """Return the decimal mark of numbers. `cells`: cells of columns that are not separated by
    commas.
    """
    texts = pd.Series([cell for cell in cells if "," in cell], dtype=str)
    if texts.str.fullmatch(_ONLY_DECIMAL).any():
        return COMMA
    if texts.str.fullmatch(_COMMA_AND_POINT).any():
        return POINT

    return UNCLEAR if texts.str.fullmatch(r"[+-]?[0-9]{1,3}(?:,[0-9]{3})+").any() else POINT


def to_numbers(
    series: pd.Series,
    file: Path | str,
    decimal: str = POINT,
    signs: MutableMapping[str, str] | None = None,
) -> pd.Series:
    """Return a column as float64. Empty cells become NaN. `signs` receives the currency sign before
    the numbers, if there is one, under the column's name.

    Raises DataError, which begins with `file`, if a cell is not a number.
    """
    if pd.api.types.is_numeric_dtype(series) and not pd.api.types.is_bool_dtype(series):
        return pd.Series(series.to_numpy(dtype=np.float64, na_value=np.nan), index=series.index)

    texts = series.astype(str).str.strip()
    sign = sign_before(texts) if signs is not None else ""
    if signs is not None and sign:
        signs[str(series.name)] = sign

    numbers, bad = parse_numbers(texts.where(series.notna(), ""), decimal)
    if bad.any():
        # only cells with units are parsed again; prices and volumes are never per cent
        figures, are_bad = parse_figures(texts[bad], decimal)
        are_bad |= texts[bad].str.endswith("%")
        numbers = numbers.where(~bad, figures)
        bad = bad & are_bad.reindex(bad.index, fill_value=False)
    if bad.any():
        raise DataError(_fault(texts[bad].iloc[0], series.name, file, decimal))

    return numbers


def parse_numbers(texts: pd.Series, decimal: str = POINT) -> tuple[pd.Series, pd.Series]:
    """Return stripped strings as float64, NaN for empty ones, and which strings are not numbers."""
    lower = texts.str.lower()
    empty = lower.isin(_NOTHING)

    # A currency sign before a number or a letter after it is not one of its digits.
    unsigned = texts.str.replace(_SIGNS, r"\1", regex=True)
    letter = lower.str[-1:]
    scaled = letter.isin(_TIMES)
    times = letter.map(_TIMES).fillna(1.0)
    bare = unsigned.where(~scaled, unsigned.str[:-1]).str.strip()

    if decimal == COMMA:
        known = bare.str.fullmatch(_COMMA_DECIMAL)
        plain = bare.str.replace(r"[.  ]", "", regex=True).str.replace(",", ".")
    else:
        has_comma = bare.str.contains(",")
        known = bare.str.fullmatch(PLAIN) & ~has_comma
        known |= bare.str.fullmatch(_GROUPED) & (decimal == POINT)
        known &= ~bare.str.fullmatch(_GROUPED_BY_POINTS) | (decimal != UNCLEAR)
        known |= lower.isin(["inf", "+inf", "-inf", "infinity", "-infinity"])
        plain = bare.str.replace(",", "")

    numbers = pd.to_numeric(plain.where(~empty, "nan"), errors="coerce") * times
    return numbers.astype(np.float64), ~known & ~empty


def parse_figures(texts: pd.Series, decimal: str = POINT) -> tuple[pd.Series, pd.Series]:
    """Return numbers like `parse_numbers`, for cells with accounting notation: `5%` is 0.05, `(5)`
    and `−5` are -5, and a currency or a unit may precede or follow the number. `unit_of` returns
    the unit.
    """
    plain = texts.str.replace("−", "-").str.replace(_CURRENCY, "", regex=True).str.strip()
    plain = plain.str.replace(_UNIT, "", regex=True)
    is_percent = plain.str.endswith("%")
    plain = plain.where(~is_percent, plain.str[:-1].str.strip())
    is_negative = plain.str.fullmatch(r"\(.+\)")
    plain = plain.where(~is_negative, plain.str[1:-1])
    plain = plain.str.replace(_SIGN_INSIDE, r"-\1", regex=True)
    numbers, bad = parse_numbers(plain, decimal)
    numbers = numbers.where(~is_percent, numbers / 100.0)
    return numbers.where(~is_negative, -numbers), bad


def unit_of(texts: pd.Series) -> pd.Series:
    """Return the letters after the number in each cell, such as BTC in `0.05BTC`, or an empty
    string.
    """
    return texts.str.extract(r"[0-9.]\s*([A-Z][A-Z0-9]{1,9})$")[0].fillna("")


def _fault(cell: str, column: object, file: Path | str, decimal: str) -> str:
    where = f"{at_line(file, cell)}: column {column!r} holds {shown_cell(cell)}"
    if decimal == COMMA:
        words = f"{where}, expected numbers such as 1234,5 or 1.234,5"
        return f"{words}; if points are decimal, say --decimal point"

    if decimal == UNCLEAR:
        advice = "say --decimal comma, or --decimal point"
        return f"{where}, which can mean two numbers; {advice}"

    words = f"{where}, expected numbers such as 1234.5 or 1,234.5"
    if pd.Series([cell]).str.fullmatch(_ONLY_DECIMAL).any():
        return f"{words}; if commas are decimal, say --decimal comma"

    return words
