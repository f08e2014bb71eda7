"""Files of vectorbt: readable records of orders or trades, and the value of a portfolio.

A `Timestamp` is the bar of the fill. By default vectorbt fills at the close of the signal's own bar;
whether signals were shifted by a bar is not in its files, so that they declare no decisions.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from ktdeval.errors import DataError
from ktdeval_judge.declared import Declared
from ktdeval_judge.readers.cells import CellRow, day_of, read_table, read_wide
from ktdeval_judge.readers.frames import FrameFill, by_day, trades_of, values_of
from ktdeval_judge.readers.sample import FileSample, ReadOptions, sample_of

name = "vectorbt"
_ORDERS = ("Column", "Timestamp", "Size", "Price", "Side")
_TRADES = (
    "Column", "Size", "Entry Timestamp", "Avg Entry Price", "Exit Timestamp", "Avg Exit Price",
    "Direction", "Status",
)  # fmt: skip
_UNKNOWN_SIGNAL = (
    "vectorbt does not write the day of a signal, so that a signal filled at its own close can't be"
    " told from a shifted one."
)


def recognises(sample: FileSample) -> bool:
    """Whether a file holds orders or trades; those of values have no names of their own."""
    return sample.has_columns("Order Id", *_ORDERS) or sample.has_columns(*_TRADES)


def read(path: Path, options: ReadOptions) -> Declared:
    """Return what a file declares. Raises DataError: the first fault, with its place."""
    sample = sample_of(path)
    if sample.has_columns("Entry Timestamp") or sample.has_columns("Direction"):
        return _of_trades(path, options)
    if sample.has_columns("Side") or sample.has_columns("Order Id"):
        return _of_orders(path, options)

    return _of_values(path, options)


def _of_orders(path: Path, options: ReadOptions) -> Declared:
    fills = []
    for row in read_table(path, _ORDERS, ("Fees",)):
        fills.append(
            FrameFill(
                moment=row.moment("Timestamp", options.clock),
                code=row.text("Column"),
                side=row.side("Side"),
                shares=row.positive("Size"),
                price=row.positive("Price"),
                fee=row.number("Fees") if row.has("Fees") else None,
            )
        )

    return Declared(
        program=name, source=path.name, trades=trades_of(fills, path), notes=(_UNKNOWN_SIGNAL,)
    )


def _of_trades(path: Path, options: ReadOptions) -> Declared:
    """Read each trade as the fill of its entry and, where it is closed, that of its exit."""
    fills = []
    for row in read_table(path, _TRADES, ("Entry Fees", "Exit Fees")):
        direction = row.text("Direction").lower()
        if direction not in ("long", "short"):
            row.refuse("Direction", f"expected Long or Short, was {direction[:20]!r}")

        entry, leave = ("buy", "sell") if direction == "long" else ("sell", "buy")
        moment = row.moment("Entry Timestamp", options.clock)
        fills.append(_fill_of(row, moment, entry, "Entry"))
        if row.text("Status").lower() == "closed":
            moment = row.moment("Exit Timestamp", options.clock)
            fills.append(_fill_of(row, moment, leave, "Exit"))

    return Declared(
        program=name, source=path.name, trades=trades_of(fills, path), notes=(_UNKNOWN_SIGNAL,)
    )


def _fill_of(row: CellRow, moment: datetime, side: str, part: str) -> FrameFill:
    fees = f"{part} Fees"
    return FrameFill(
        moment=moment,
        code=row.text("Column"),
        side=side,
        shares=row.positive("Size"),
        price=row.positive(f"Avg {part} Price"),
        fee=row.number(fees) if row.has(fees) else None,
    )


def _of_values(path: Path, options: ReadOptions) -> Declared:
    rows, portfolios = read_wide(path)
    if len(portfolios) != 1:
        shown = ", ".join(portfolios)[:200] or "none"
        raise DataError(
            f"{path}: expected the value of one portfolio, found columns: {shown}; share the cash"
            " (cash_sharing=True), or keep one column"
        )

    portfolio = portfolios[0]
    pairs = [(row, day_of(row.moment("day", options.clock)), row.number(portfolio)) for row in rows]
    values = values_of(by_day(pairs, "day"), path)
    notes = ("Values are those at each close, after the orders of the day.",)
    return Declared(program=name, source=path.name, values=values, notes=notes)
