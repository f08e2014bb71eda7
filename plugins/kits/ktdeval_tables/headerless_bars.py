"""Guess the columns of bars without a header from their cells."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from ktdeval.market import parse_code
from ktdeval_tables.days import looks_like_day
from ktdeval_tables.numbers import NUMBER

KLINES = (
    *("date", "open", "high", "low", "close", "volume"),
    *("-", "amount", "-", "-", "-", "-"),
)
_STAMP = re.compile(r"1[0-9]{9}(?:[0-9]{3}){0,3}")
_FIRST_STAMP = 1e9  # in seconds: 2001-09-09; increasing numbers above it are timestamps
_FEW = 5  # minimum number of rows needed to distinguish volume from an adjusted close
# a column may be a volume if, in the first rows, its maximum / minimum exceeds this
_RANGE_OF_PRICES = 1.5
_RANGE_OF_FACTOR = 1.25  # maximum / minimum of the adjustment factor in the first rows


def guess_names(rows: Sequence[Sequence[str]]) -> list[str]:
    """Guess the column names from the first rows: days, codes, and prices that lie between a high
    and a low.
    """
    width = len(rows[0])
    whole = [row for row in rows if len(row) == width]
    names = ["-"] * width
    numeric = []

    for place in range(width):
        cells = [row[place] for row in whole]
        if "date" not in names and all(looks_like_day(cell, stamps=True) for cell in cells):
            names[place] = "date"
        elif "code" not in names and _are_codes(cells):
            names[place] = "code"
        elif all(NUMBER.fullmatch(cell) for cell in cells):
            numeric.append(place)

    prices = _order_of_prices(whole, numeric)
    for name, place in zip(prices, numeric, strict=False):
        names[place] = name

    if prices:
        bars = [_cell_numbers(row, numeric) for row in whole]
        for name, index in _beside_prices(bars, prices).items():
            names[numeric[index]] = name

    return names


def are_klines(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether rows have the twelve columns of Binance's klines, in which the first and the
    seventh column are the bar's open and close times.
    """
    ends = KLINES.index("volume") + 1
    return all(
        len(row) == len(KLINES)
        and _STAMP.fullmatch(row[0])
        and _STAMP.fullmatch(row[ends])
        and row[0] < row[ends]
        for row in rows
    )


def name_klines(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the column names of klines, without the amount if it does not fit the volume."""
    names = list(KLINES)
    places = [names.index(name) for name in ("low", "high", "volume", "amount")]
    for low, high, volume, amount in (_cell_numbers(row, places) for row in rows):
        if not low * volume <= amount <= high * volume:
            names[places[-1]] = "-"
    return names


def _beside_prices(bars: Sequence[Sequence[float]], prices: Sequence[str]) -> dict[str, int]:
    """Return which numeric columns after the four prices are volume and amount.

    Only the values are used: a column of average prices is neither, and amount / volume is a price
    within the day's range.
    """
    low = [bar[prices.index("low")] for bar in bars]
    high = [bar[prices.index("high")] for bar in bars]

    def is_price(values: Sequence[float]) -> bool:
        return all(a <= value <= b for a, value, b in zip(low, values, high, strict=True))

    others = {}
    for index in range(4, len(bars[0])):
        values = [bar[index] for bar in bars]
        closes = [bar[prices.index("close")] for bar in bars]
        if is_count(values) and not is_price(values) and not _follows(closes, values):
            others[index] = values

    for volume, counts in others.items():
        for amount, paid in others.items():
            pairs = list(zip(paid, counts, strict=True))
            if all(count > 0 for _, count in pairs) and is_price([a / b for a, b in pairs]):
                return {"volume": volume, "amount": amount}

    return {"volume": next(iter(others))} if others else {}


def is_count(values: Sequence[float]) -> bool:
    """Return whether numbers may be volumes or amounts: they are not timestamps, not constant, and
    vary more than the prices of an asset.
    """
    least = min(values, default=0.0)
    are_stamps = least >= _FIRST_STAMP and all(one < other for one, other in pairwise(values))
    differ = len(set(values)) > 1
    if len(values) >= _FEW:
        differ = max(values) >= _RANGE_OF_PRICES * least
    return differ and not are_stamps


def _follows(closes: Sequence[float], values: Sequence[float]) -> bool:
    """Return whether values track the closes, as adjusted closes do."""
    ratios = [value / close for value, close in zip(values, closes, strict=True) if close]
    least, most = min(ratios, default=0.0), max(ratios, default=0.0)
    return len(ratios) >= _FEW and least > 0 and most < least * _RANGE_OF_FACTOR


def _are_codes(cells: Sequence[str]) -> bool:
    """Return whether cells are A-share codes or symbols."""
    if all(parse_code(cell) for cell in cells):
        return True
    return all(re.fullmatch(r"[A-Za-z][A-Za-z0-9._/-]{0,14}", cell) for cell in cells)


def _order_of_prices(rows: Sequence[Sequence[str]], numeric: Sequence[int]) -> list[str]:
    """Return the price names of the first four numeric columns, in column order.

    The values show which columns are high and low.
    """
    if len(numeric) < 4:
        return []

    table = [_cell_numbers(row, numeric[:4]) for row in rows]
    highest = []
    lowest = []
    for place in range(4):
        if all(row[place] >= max(row) for row in table):
            highest.append(place)

        if all(row[place] <= min(row) for row in table):
            lowest.append(place)

    if not highest or not lowest:
        return []

    names = [""] * 4
    names[highest[0]] = "high"
    names[lowest[-1]] = "low"
    left = [place for place in range(4) if not names[place]]
    if len(left) != 2:
        return ["open", "high", "low", "close"]

    names[left[0]] = "open"
    names[left[1]] = "close"
    return names


def _cell_numbers(row: Sequence[str], places: Sequence[int]) -> list[float]:
    """Return the cells at the given places as numbers, ignoring surrounding signs and letters."""
    bare = [row[place].strip("$¥\uffe5€£%KMBkmb万亿").replace(",", "") for place in places]
    return [float(cell or "nan") for cell in bare]
