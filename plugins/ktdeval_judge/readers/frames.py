"""Frames of `Declared` from what readers find, in an order that does not depend on the file's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import pandas as pd

from ktdeval.errors import DataError
from ktdeval_judge.readers.cells import CellRow, day_of

SAME_CLOSE = "{program} fills at the close of the day on which it decides."
RETURNS_ONLY = "The file gives returns: values are of an account of 1 before its first day."


@dataclass(frozen=True, kw_only=True)
class FrameFill:
    """An order, or a part of one, that was filled."""

    moment: datetime  #: of the fill, by the market's clock
    code: str
    side: str  #: buy or sell
    shares: float
    price: float
    fee: float | None = None

    def with_fee(self, fee: float | None) -> FrameFill:
        """Return the fill with its fee."""
        return replace(self, fee=fee)


@dataclass(frozen=True, kw_only=True)
class FrameOrder:
    """A decision to buy or sell so many shares."""

    day: int  #: on whose knowledge it was decided
    code: str
    side: str  #: buy or sell
    amount: float


def signed_fill(row: CellRow, moment: datetime, code: str, size: str, price: str) -> FrameFill:
    """Return the fill of a row whose size is positive for a purchase and negative for a sale."""
    shares = row.number(size)
    if shares == 0:
        row.refuse(size, "expected a number other than zero, was 0")

    side = "buy" if shares > 0 else "sell"
    return FrameFill(
        moment=moment, code=code, side=side, shares=abs(shares), price=row.positive(price)
    )


def trades_of(fills: Iterable[FrameFill], source: object) -> pd.DataFrame:
    """Return the trades of fills, by moment; at one moment sales come first. Raises DataError: there
    are none.
    """
    ordered = sorted(
        fills,
        key=lambda fill: (fill.moment, fill.side != "sell", fill.code, fill.shares, fill.price),
    )
    if not ordered:
        raise DataError(f"{source}: holds no filled order; export a period with trades")

    columns = {
        "day": [day_of(fill.moment) for fill in ordered],
        "code": [fill.code for fill in ordered],
        "side": [fill.side for fill in ordered],
        "shares": [fill.shares for fill in ordered],
        "price": [fill.price for fill in ordered],
    }
    frame = pd.DataFrame(columns)
    if any(fill.fee is not None for fill in ordered):
        frame["fee"] = [float("nan") if fill.fee is None else fill.fee for fill in ordered]

    return frame


def orders_of(orders: Iterable[FrameOrder], source: object) -> pd.DataFrame:
    """Return decisions to buy and sell, by day; on one day sales come first."""
    ordered = sorted(
        orders, key=lambda order: (order.day, order.side != "sell", order.code, order.amount)
    )
    if not ordered:
        raise DataError(f"{source}: holds no decision to trade; export a period with decisions")

    columns = {
        "day": [order.day for order in ordered],
        "code": [order.code for order in ordered],
        "side": [order.side for order in ordered],
        "amount": [order.amount for order in ordered],
    }
    return pd.DataFrame(columns)


def targets_of(books: Mapping[int, Mapping[str, float]], form: str, source: object) -> pd.DataFrame:
    """Return decisions on targets, from the whole book of each day: what a book no longer names has a
    target of zero once. `form`: weight or shares.
    """
    rows: list[tuple[int, str, float]] = []
    held: frozenset[str] = frozenset()
    for day in sorted(books):
        book = books[day]
        closed = dict.fromkeys(held.difference(book), 0.0)
        rows += [(day, code, target) for code, target in sorted({**book, **closed}.items())]
        held = frozenset(code for code, target in book.items() if target != 0)

    if not rows:
        raise DataError(f"{source}: holds no decision to trade; export a period with decisions")
    return pd.DataFrame(rows, columns=["day", "code", form])


def values_of(values: Mapping[int, float], source: object) -> pd.Series:
    """Return account values by day. Raises DataError: there are none."""
    if not values:
        raise DataError(f"{source}: holds no account value; export a period with trading days")

    days = sorted(values)
    index = pd.Index(days, name="day", dtype="int64")
    return pd.Series([float(values[day]) for day in days], index=index, name="value")


def compound_returns(returns: Mapping[int, float], source: object) -> pd.Series:
    """Return the values of an account of 1 before the first day, from its returns by day."""
    value = 1.0
    values: dict[int, float] = {}
    for day in sorted(returns):
        value *= 1.0 + returns[day]
        values[day] = value

    return values_of(values, source)


def by_day(pairs: Sequence[tuple[CellRow, int, float]], name: str) -> dict[int, float]:
    """Return numbers by day. Raises DataError: a day appears twice."""
    found: dict[int, float] = {}
    for row, day, number in pairs:
        if day in found:
            row.refuse(name, f"the day {day} appears twice; keep one row a day")
        found[day] = number

    return found
