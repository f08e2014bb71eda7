"""Results of ai-hedge-fund: the JSON of a fund's backtest (version 2), and days of a backtest of the
web application (version 1).

Both decide on the close of a day and fill at that same close. Weights of version 2 are shares of
`equity_before`; values are those after the fills, at the close.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from ktdeval_judge.declared import Declared
from ktdeval_judge.readers.cells import CellRow, day_of, object_row
from ktdeval_judge.readers.frames import (
    SAME_CLOSE,
    FrameFill,
    FrameOrder,
    by_day,
    orders_of,
    targets_of,
    trades_of,
    values_of,
)
from ktdeval_judge.readers.sample import FileSample, ReadOptions, load_document

name = "ai-hedge-fund"
_FUND = ("capital", "dates", "nav", "records")
_DAY = ("date", "portfolio_value", "decisions", "executed_trades")
_SHORTS = "short is read as sell, cover as buy."


def recognises(sample: FileSample) -> bool:
    """Whether a document is a fund's backtest, or holds the days of one."""
    if sample.has_keys(*_FUND) or sample.has_keys(*_DAY):
        return True

    return sample.has_keys("results", "performance_metrics", "portfolio_values")


def read(path: Path, _options: ReadOptions) -> Declared:
    """Return what a file declares. Raises DataError: the first fault, with its place."""
    document = load_document(path)
    if isinstance(document, list):
        return _of_days(path, CellRow(str(path), {"results": document}, unit="key"))

    result = object_row(str(path), document)
    return _of_days(path, result) if result.has("results") else _of_fund(path, result)


# ---- version 2


def _of_fund(path: Path, result: CellRow) -> Declared:
    books: dict[int, dict[str, float]] = {}
    fills: list[FrameFill] = []
    navs = []
    for number, item in enumerate(result.items("records")):
        record = object_row(f"{path}: records[{number}]", item)
        moment = record.moment("as_of")
        day = day_of(moment)
        if day in books:
            record.refuse("as_of", f"the day {day} appears twice; keep one record a day")

        weights = object_row(f"{record.place}: final_weights", record.members("final_weights"))
        books[day] = {code: weights.number(code) for code in weights.cells}
        navs.append((record, day, record.number("nav")))
        for index, filled in enumerate(record.items("fills")):
            fill = object_row(f"{record.place}: fills[{index}]", filled)
            fills.append(
                FrameFill(
                    moment=moment,
                    code=fill.text("ticker"),
                    side=fill.side("side"),
                    shares=fill.positive("quantity"),
                    price=fill.positive("price"),
                )
            )

    return Declared(
        program=name,
        source=path.name,
        decisions=targets_of(books, "weight", path),
        trades=trades_of(fills, path) if fills else None,
        values=values_of(by_day(navs, "as_of"), path),
        benchmark=_benchmark(path, result),
        cash=result.positive("capital"),
        notes=(SAME_CLOSE.format(program=name),),
    )


def _benchmark(path: Path, result: CellRow) -> pd.Series | None:
    """Return returns of the benchmark between the dates; its values begin with the first date."""
    if not result.has("benchmark_nav"):
        return None

    dates = result.items("dates")
    levels = result.items("benchmark_nav")
    if len(dates) != len(levels):
        result.refuse("benchmark_nav", f"has {len(levels)} values for {len(dates)} dates")

    pairs = []
    for number, (day, level) in enumerate(zip(dates, levels, strict=True)):
        row = CellRow(f"{path}: benchmark_nav[{number}]", {"day": day, "value": level}, unit="key")
        pairs.append((row, day_of(row.moment("day")), row.positive("value")))

    values = values_of(by_day(pairs, "day"), path)
    returns: pd.Series = values.pct_change().dropna().rename("benchmark")
    return returns if len(returns) else None


# ---- version 1


def _of_days(path: Path, result: CellRow) -> Declared:
    orders: list[FrameOrder] = []
    fills: list[FrameFill] = []
    values = []
    for number, item in enumerate(result.items("results")):
        row = object_row(f"{path}: results[{number}]", item)
        values.append((row, day_of(row.moment("date")), row.number("portfolio_value")))
        day_orders, day_fills = _of_day(row)
        orders += day_orders
        fills += day_fills

    return Declared(
        program=name,
        source=path.name,
        decisions=orders_of(orders, path),
        trades=trades_of(fills, path) if fills else None,
        values=values_of(by_day(values, "date"), path),
        cash=_first_value(path, result),
        notes=(SAME_CLOSE.format(program=name), _SHORTS),
    )


def _of_day(row: CellRow) -> tuple[list[FrameOrder], list[FrameFill]]:
    moment = row.moment("date")
    executed = object_row(f"{row.place}: executed_trades", row.members("executed_trades"))
    prices = object_row(f"{row.place}: current_prices", row.members("current_prices"))
    orders: list[FrameOrder] = []
    fills: list[FrameFill] = []
    for code, decision in row.members("decisions").items():
        made = object_row(f"{row.place}: decisions.{code[:40]}", decision)
        if made.text("action").lower() == "hold" or made.number("quantity") == 0:
            continue

        side = made.side("action")
        amount = made.positive("quantity")
        orders.append(FrameOrder(day=day_of(moment), code=code, side=side, amount=amount))
        if executed.has(code) and executed.number(code):
            shares = executed.positive(code)
            price = prices.positive(code)
            fills.append(FrameFill(moment=moment, code=code, side=side, shares=shares, price=price))

    return orders, fills


def _first_value(path: Path, result: CellRow) -> float | None:
    """Return the initial capital, which `portfolio_values` begins with."""
    if not result.has("portfolio_values"):
        return None

    values = result.items("portfolio_values")
    if not values:
        return None
    return object_row(f"{path}: portfolio_values[0]", values[0]).positive("Portfolio Value")
