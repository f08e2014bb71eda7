"""Files of backtrader: orders of an analyzer, `Transactions`, `PyFolio` returns, the text of a writer.

`next` runs after the close of a bar, so that an order's `created` is the day it was decided on. It is
filled at the next open, or with cheat-on-close at the close of `created`; there `Transactions` still
writes the day after. Sizes are signed.
"""

from __future__ import annotations

from pathlib import Path

from ktdeval.errors import DataError
from ktdeval_judge.declared import Declared
from ktdeval_judge.readers.cells import CellRow, day_of, read_table
from ktdeval_judge.readers.frames import (
    RETURNS_ONLY,
    FrameOrder,
    by_day,
    compound_returns,
    orders_of,
    signed_fill,
    trades_of,
    values_of,
)
from ktdeval_judge.readers.sample import FileSample, ReadOptions, sample_of, text_rows

name = "backtrader"
_ORDERS = ("created", "executed", "data", "size", "price")
_TRANSACTIONS = ("date", "amount", "price", "symbol")
_RETURNS = ("index", "return")
_RULE = "==="  # a line of these opens and closes the table of a writer


def recognises(sample: FileSample) -> bool:
    """Whether a file is of backtrader."""
    if sample.has_columns(*_ORDERS) or sample.has_columns(*_TRANSACTIONS, "sid", "value"):
        return True

    return sample.names == frozenset(_RETURNS) or _is_writer(sample)


def read(path: Path, _options: ReadOptions) -> Declared:
    """Return what a file declares. Raises DataError: the first fault, with its place."""
    sample = sample_of(path)
    if _is_writer(sample):
        return _of_writer(path)
    if sample.has_columns("created"):
        return _of_orders(path)
    if sample.names == frozenset(_RETURNS):
        return _of_returns(path)

    return _of_transactions(path)


def _is_writer(sample: FileSample) -> bool:
    if len(sample.head) < 2 or not sample.columns or not sample.columns[0].startswith(_RULE):
        return False
    return "Broker" in sample.head[1]


def _of_orders(path: Path) -> Declared:
    orders = []
    fills = []
    for row in read_table(path, _ORDERS, ("commission",)):
        code = row.text("data")
        fill = signed_fill(row, row.moment("executed"), code, "size", "price")
        fee = row.number("commission") if row.has("commission") else None
        fills.append(fill.with_fee(fee))
        created = day_of(row.moment("created"))
        orders.append(FrameOrder(day=created, code=code, side=fill.side, amount=fill.shares))

    return Declared(
        program=name,
        source=path.name,
        decisions=orders_of(orders, path),
        trades=trades_of(fills, path),
        notes=("Only orders that were filled are decisions here.",),
    )


def _of_transactions(path: Path) -> Declared:
    rows = read_table(path, _TRANSACTIONS)
    fills = [
        signed_fill(row, row.moment("date"), row.text("symbol"), "amount", "price") for row in rows
    ]
    notes = (
        "Transactions of one asset and day are netted by backtrader, and say nothing of fees.",
        "With cheat-on-close, backtrader writes the day after the fill; the orders say the day.",
    )
    return Declared(program=name, source=path.name, trades=trades_of(fills, path), notes=notes)


def _of_returns(path: Path) -> Declared:
    rows = read_table(path, _RETURNS)
    pairs = [(row, day_of(row.moment("index")), row.number("return")) for row in rows]
    values = compound_returns(by_day(pairs, "index"), path)
    return Declared(program=name, source=path.name, values=values, cash=1.0, notes=(RETURNS_ONLY,))


def _of_writer(path: Path) -> Declared:
    """Read the account's value at each close from the columns of the observer `Broker`."""
    pairs: list[tuple[CellRow, int, float]] = []
    columns: list[str] = []
    is_whole = False
    for line, cells in text_rows(path):
        is_rule = bool(cells) and cells[0].startswith(_RULE)
        if is_rule and pairs:
            is_whole = True
            break
        if is_rule or not cells:
            continue
        if not columns:
            columns = cells
            continue

        row = _writer_row(f"{path}: line {line}", columns, cells)
        pairs.append((row, day_of(row.moment("datetime")), row.number("value")))

    if not is_whole:
        raise DataError(f"{path}: its table has no closing line of =====; write the file whole")

    notes = ("Values are those of the observer Broker, after the fills of each day.",)
    values = values_of(by_day(pairs, "datetime"), path)
    return Declared(program=name, source=path.name, values=values, notes=notes)


def _writer_row(place: str, columns: list[str], cells: list[str]) -> CellRow:
    """Return day and value of a row, whose columns repeat their names for each data and observer."""
    try:
        broker = columns.index("Broker")
        found = {
            "datetime": columns.index("datetime"),
            "value": columns.index("value", broker),
        }
    except ValueError as error:
        raise DataError(
            f"{place}: its header lacks datetime, Broker or value; keep the observer Broker"
        ) from error

    row = CellRow(place, {key: cells[at] for key, at in found.items() if at < len(cells)})
    if len(cells) != len(columns):
        row.refuse(
            "value", f"the row has {len(cells)} of {len(columns)} cells; write the file whole"
        )

    return row
