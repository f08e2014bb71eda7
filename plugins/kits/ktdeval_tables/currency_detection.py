"""Currencies stated in a table: by signs before numbers, by column names, or in a separate
column.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping

import pandas as pd

PRICES = ("open", "high", "low", "close")

HUNDREDTHS: Mapping[str, tuple[str, int]] = {
    "GBp": ("GBP", 100),
    "GBX": ("GBP", 100),
    "ILA": ("ILS", 100),
    "ZAc": ("ZAR", 100),
    "ZAC": ("ZAR", 100),
    "KWF": ("KWD", 1000),
}
"""Subunits in which exchanges quote prices: pence, agorot, South African cents, fils."""

LIKE_DOLLARS = frozenset({"USDT", "USDC", "FDUSD", "TUSD", "BUSD", "USDP", "DAI", "PYUSD", "USD1"})
"""Stablecoins pegged to the US dollar."""

_CODES = (
    *("AED", "ARS", "AUD", "BGN", "BRL", "CAD", "CHF", "CLP", "CNH", "CNY", "COP", "CZK", "DKK"),
    *("EGP", "EUR", "GBP", "HKD", "HUF", "IDR", "ILS", "INR", "ISK", "JPY", "KRW", "KWD", "MXN"),
    *("MYR", "NGN", "NOK", "NZD", "PEN", "PHP", "PKR", "PLN", "QAR", "RON", "RUB", "SAR", "SEK"),
    *("SGD", "THB", "TRY", "TWD", "USD", "VND", "ZAR"),
)  # ISO 4217 codes; other words, such as the name of a crypto asset, are not accepted as currencies
_SIGNS: Mapping[str, tuple[str, ...]] = {
    "€": ("EUR",),
    "£": ("GBP",),
    "¥": ("CNY", "CNH", "JPY"),
    "元": ("CNY", "CNH", "HKD", "TWD"),
    "円": ("JPY",),
    "원": ("KRW",),
}
"""Sign -> currencies that it may mean. A `$` may mean any dollar or dollar stablecoin."""

_SIGN_BEFORE = re.compile(r"[+-]?([¥\uffe5€£])")
_IN_BRACKETS = re.compile(r"[(\[]([^)\]]*)[)\]](\s*\S+\s*$)?")


def sign_before(cells: pd.Series) -> str:
    """Return the first currency sign before the numbers in a column; empty without a sign."""
    signed = cells[cells.str.match(_SIGN_BEFORE)]
    if signed.empty:
        return ""

    found = _SIGN_BEFORE.match(str(signed.iloc[0]))
    return unicodedata.normalize("NFKC", found[1]) if found else ""


def word_in(name: str) -> str:
    """Return the currency in a column name such as `close (EUR)`, `Kurs [GBp]` or `收盘价[单位]元`; empty
    without a currency.
    """
    found = _IN_BRACKETS.search(unicodedata.normalize("NFKC", name))
    if found is None:
        return ""

    behind = (found[2] or "").strip()
    for word in (behind, found[1].strip()):
        if word in _CODES or word in HUNDREDTHS or word in _SIGNS:
            return word

    return ""


def may_mean(word: str) -> tuple[str, ...]:
    """Return the currencies that a sign or word may mean; empty if it denotes a subunit such as
    pence, or no known currency.
    """
    if word in LIKE_DOLLARS:
        return ("USD",)
    if word in _SIGNS:
        return _SIGNS[word]
    if word in HUNDREDTHS or word.upper() not in _CODES:
        return ()

    return (word.upper(),)
