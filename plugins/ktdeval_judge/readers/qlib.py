"""Files of Qlib: `report_normal` of a backtest, and its positions as a table.

A strategy sees the signals of the day before and trades on the row's day, at `deal_price`. A report's
`return` leaves costs out: account = account before * (1 + return - cost). Positions stand after the
trades of their day, so that a book was decided on the trading day before. Their amounts are shares
where `$factor` is 1, and adjusted shares elsewhere.
"""

from __future__ import annotations

from bisect import bisect_left
from datetime import datetime, timedelta
from pathlib import Path

from ktdeval_judge.declared import Declared
from ktdeval_judge.readers.cells import CellRow, day_of, read_table
from ktdeval_judge.readers.frames import by_day, targets_of, values_of
from ktdeval_judge.readers.sample import FileSample, ReadOptions, sample_of

name = "qlib"
_REPORT = ("datetime", "account", "return", "cost")
_POSITIONS = ("instrument", "datetime", "amount")
_SOLD = -1.0  # status of a row that `parse_position` keeps for what was sold that day
_FILLED_BOOK = (
    "Positions are what Qlib held after its fills: what it could not fill is not a decision here."
)
_NO_FACTOR = (
    "Amounts are taken for shares, which they are where $factor is 1; else add a column factor."
)
_NO_SESSIONS = "Without the market's trading days, the weekday before a row is its decision's day."


def recognises(sample: FileSample) -> bool:
    """Whether a file is a report or a table of positions."""
    if sample.has_columns(*_POSITIONS):
        return sample.has_columns("price") or sample.has_columns("weight")

    return sample.has_columns("account", "return", "cost", "turnover")


def read(path: Path, options: ReadOptions) -> Declared:
    """Return what a file declares. Raises DataError: the first fault, with its place."""
    if sample_of(path).has_columns("instrument"):
        return _of_positions(path, options)

    return _of_report(path)


def _of_report(path: Path) -> Declared:
    accounts = []
    benchmarks = []
    fees = []
    first: tuple[int, float] | None = None
    for row in read_table(path, _REPORT, ("bench",)):
        day = day_of(row.moment("datetime"))
        account = row.positive("account")
        accounts.append((row, day, account))
        growth = 1.0 + row.number("return") - row.number("cost")
        if growth <= 0:
            row.refuse("return", "the account falls to nothing; write returns as fractions")
        before = account / growth
        fees.append((row, day, row.number("cost") * before))
        if first is None or day < first[0]:
            first = (day, before)
        if row.has("bench"):
            benchmarks.append((row, day, row.number("bench")))

    values = values_of(by_day(accounts, "datetime"), path)
    benchmark = None
    if benchmarks:
        benchmark = values_of(by_day(benchmarks, "datetime"), path).rename("benchmark")
    return Declared(
        program=name,
        source=path.name,
        values=values,
        benchmark=benchmark,
        fees=values_of(by_day(fees, "datetime"), path).rename("fees"),
        cash=None if first is None else round(first[1], 4),
        notes=("The benchmark is the report's column bench: returns of its index by day.",),
    )


def _of_positions(path: Path, options: ReadOptions) -> Declared:
    books: dict[int, dict[str, float]] = {}
    has_factor = False
    for row in read_table(path, _POSITIONS, ("factor", "status")):
        if row.has("status") and row.number("status") == _SOLD:
            continue

        book = books.setdefault(day_of(row.moment("datetime")), {})
        code = row.text("instrument")
        if code in book:
            row.refuse("instrument", f"{code[:40]} appears twice on one day; keep one row")
        book[code] = _shares(row)
        has_factor |= row.has("factor")

    notes = [_FILLED_BOOK]
    if not has_factor:
        notes.append(_NO_FACTOR)
    if not options.sessions:
        notes.append(_NO_SESSIONS)

    decided = _by_decision(books, options.sessions)
    return Declared(
        program=name,
        source=path.name,
        decisions=targets_of(decided, "shares", path),
        notes=tuple(notes),
    )


def _shares(row: CellRow) -> float:
    amount = row.number("amount")
    factor = row.positive("factor") if row.has("factor") else 1.0
    return amount * factor


def _by_decision(
    books: dict[int, dict[str, float]], sessions: tuple[int, ...]
) -> dict[int, dict[str, float]]:
    """Return books by the day that they were decided on; a session between the first and the last day
    that has no rows has an empty book.
    """
    days = set(books)
    if days:
        days.update(day for day in sessions if min(books) < day < max(books))

    return {_day_before(day, sessions): books.get(day, {}) for day in days}


def _day_before(day: int, sessions: tuple[int, ...]) -> int:
    """Return the trading day before a day; without trading days the weekday before."""
    at = bisect_left(sessions, day)
    if at:
        return sessions[at - 1]

    moment = datetime(day // 10_000, day // 100 % 100, day % 100)
    moment -= timedelta(days=1)
    while moment.weekday() > 4:
        moment -= timedelta(days=1)

    return day_of(moment)
