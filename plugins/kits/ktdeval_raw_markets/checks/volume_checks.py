"""Impossible volumes: prices in the volume column, or traded values instead of numbers of coins."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import numpy as np

from ktdeval.market import BoolArray
from ktdeval.values import Finding, csv_rows
from ktdeval_raw_markets.checks.findings import finding_of
from ktdeval_raw_markets.sources.raw_tables import BarTable, RawMarket

_MIN_BARS = 5
_NEARLY_ALL = 0.95  # minimum fraction of a code's bars
_MOST = 0.5
_NOISE = 1e-9  # maximum relative difference between equal numbers
_MAX_TRADED = 1e12  # USD a day: more than three times the trading in any crypto asset
_QUOTES = re.compile(r"(?<=..)(USDT|USDC|FDUSD|TUSD|BUSD|USD|EUR|GBP|JPY|KRW|BTC|ETH)$")
_MAX_SCOPES = 8  # maximum number of scopes that a message gives as options


def check_impossible_volumes(raw: RawMarket) -> Iterator[Finding]:
    """Find codes whose volumes are prices or exceed the number of coins in existence."""
    yield _price_finding(raw)
    yield _supply_finding(raw)


def _price_finding(raw: RawMarket) -> Finding:
    """Find codes whose volumes lie between low and high on nearly all days, as average prices
    do.
    """
    table = raw.table

    def has_range(part: BarTable) -> BoolArray:
        return np.asarray(part.traded & (part["high"] > part["low"]) & (part["volume"] > 0))

    def is_price(part: BarTable) -> BoolArray:
        volume = part["volume"]
        above = volume >= part["low"] * (1 - _NOISE)
        return np.asarray(above & (volume <= part["high"] * (1 + _NOISE)))

    known = table.judge_parts(has_range)
    odd = _codes_with(table, known, known & table.judge_parts(is_price), _NEARLY_ALL)
    codes = np.asarray(table.codes)[odd].tolist()
    return finding_of("volume_is_price", len(codes), codes)


def _supply_finding(raw: RawMarket) -> Finding:
    """Find crypto assets that trade more coins a day than exist, or a higher value than any crypto
    asset trades.
    """
    table = raw.table
    supply = np.full(len(table.codes), np.inf)
    most = np.full(len(table.codes), np.inf)
    for column, code in enumerate(table.codes):
        instrument = raw.instrument(code)
        if instrument.kind != "crypto":
            continue

        supply[column] = _supply_of(code)
        if instrument.currency == "USD":
            most[column] = _MAX_TRADED

    def is_beyond(part: BarTable) -> BoolArray:
        volume = part["volume"]
        beyond = volume > supply[part.column]
        return np.asarray(beyond | (volume * part["close"] > most[part.column]))

    known = table.judge_parts(lambda part: part.traded & (part["volume"] > 0))
    odd = np.flatnonzero(_codes_with(table, known, known & table.judge_parts(is_beyond), _MOST))
    examples = []
    for column in odd.tolist():
        own = known & (table.column == column)
        code = table.codes[column]
        usual = f"{code}: {np.median(table['volume'][own]):.3g} a day"
        if np.isfinite(supply[column]):
            usual = f"{usual}, of at most {supply[column]:.3g} in all"
        examples.append(usual)

    def may_be_value(part: BarTable) -> BoolArray:
        return np.asarray(part["volume"] / part["close"] <= supply[part.column])

    plausible = _codes_with(table, known, known & table.judge_parts(may_be_value), _NEARLY_ALL)
    codes = np.asarray(table.codes)[odd].tolist()
    fix = _fix(raw, codes, bool(plausible[odd].all()))
    return finding_of("volume_beyond_supply", len(odd), examples, fix=fix)


def _fix(raw: RawMarket, codes: list[str], may_be_values: bool) -> str:
    """Return how to fix the volumes: an option that treats them as traded values if these would be
    plausible, else a correction of the file.
    """
    given = raw.conventions
    if not given.has_options or given.volume_unit.scopes or not may_be_values:
        return "no option helps: correct the volumes in the file"

    if len(codes) == len(raw.table.codes):
        return "--volume-unit value if they are traded values, or correct them in the file"
    if len(codes) > _MAX_SCOPES or given.volume_unit.scale != 1:
        return "no option helps: correct the volumes in the file"

    scopes = ",".join(f"{code}=value" for code in codes)
    return f"--volume-unit share,{scopes} if they are traded values, or correct them in the file"


def _codes_with(table: BarTable, known: BoolArray, found: BoolArray, part: float) -> BoolArray:
    """Return whether `found` is true for at least the fraction `part` of a code's known bars.
    Shape: [codes].
    """
    size = len(table.codes)
    count = np.bincount(table.column[known], minlength=size)
    own = np.bincount(table.column[found], minlength=size)
    return np.asarray((count >= _MIN_BARS) & (own >= part * count))


def _supply_of(code: str) -> float:
    """Return the maximum supply, in coins, for a code such as `BTC-USDT`; infinite if unknown."""
    base = re.split(r"[-._]", code.upper())[0]
    for name in (base, _QUOTES.sub("", base)):
        if name in _supplies():
            return _supplies()[name]
    return float("inf")


@cache
def _supplies() -> Mapping[str, float]:
    """Return the maximum supply by crypto asset. A row is `sourced` if its figure is from the
    project's own page, viewed on the stated day. It is `second_hand` if the figure is from another
    page or has no page.
    """
    rows = csv_rows(Path(__file__).with_name("coins.csv"))
    return {row["coin"]: float(row["supply"]) for row in rows}
