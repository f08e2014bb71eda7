"""Currencies in which vendors quote assets. They are read, converted to whole units, and compared
with the market's currency.
"""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from ktdeval.errors import UsageError
from ktdeval_raw_markets.assembly import listed_codes
from ktdeval_tables.currency_detection import HUNDREDTHS, LIKE_DOLLARS

_MONEY = ("open", "high", "low", "close", "amount", "dividend")


def quoted_in(table: pd.DataFrame, name: str) -> dict[str, str]:
    """Return code -> currency, as named by the vendor, without codes for which the vendor gives
    none. Raises UsageError if a code has two currencies.
    """
    if "currency" not in table:
        return {}

    quoted: dict[str, str] = {}
    pairs = table[["code", "currency"]].dropna().drop_duplicates()
    for code, currency in pairs.itertuples(index=False):
        if currency and quoted.setdefault(str(code), str(currency)) != currency:
            both = f"{quoted[code]} and {currency}"
            raise UsageError(f"{name}: {code} is quoted in {both}; leave it out")

    return quoted


def in_whole_units(
    bars: pd.DataFrame,
    quoted: Mapping[str, str],
) -> tuple[pd.DataFrame, dict[str, str], list[str]]:
    """Return bars with prices in whole currency units, the currency of each code, and notes on
    prices that were divided or were assumed to be in dollars.
    """
    bars = bars.copy()
    currencies = dict(quoted)
    notes = []

    for unit in sorted(set(quoted.values())):
        codes = sorted(code for code, own in quoted.items() if own == unit)
        if unit in HUNDREDTHS:
            whole, parts = HUNDREDTHS[unit]
            own = bars["code"].isin(codes)
            money = [field for field in _MONEY if field in bars]
            bars.loc[own, money] = bars.loc[own, money] / parts
            currencies |= dict.fromkeys(codes, whole)
            notes.append(
                f"prices of {listed_codes(codes)} in {unit} are divided by {parts}, to {whole}"
            )
        elif unit in LIKE_DOLLARS:
            currencies |= dict.fromkeys(codes, "USD")
            notes.append(f"{unit} is taken as USD in the prices of {listed_codes(codes)}")

    return bars, currencies, notes


def check_currencies(
    currencies: Mapping[str, str],
    account: str,
    has_rates: bool,
    name: str,
) -> None:
    """Raise UsageError if a code is quoted in a currency other than the account's, and no exchange
    rates are given.
    """
    others = sorted(code for code, currency in currencies.items() if currency != account)
    if others and not has_rates:
        quotes = listed_codes([f"{code} in {currencies[code]}" for code in others])
        advice = f"leave them out, or convert them: --fx RATES --currency {account}"
        raise UsageError(
            f"symbols: {name} quotes {quotes}, and this market counts in {account}; {advice}",
        )
