"""Results of QuantConnect LEAN: orders, order events, and an equity chart.

All times are in UTC. Equity is sampled at midnight of the algorithm's clock, so a sample belongs to
the close of the previous day (`BaseResultsHandler.Sample`). Older versions of LEAN write keys in
upper case.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pandas as pd

from ktdeval.cards import count
from ktdeval.errors import DataError
from ktdeval_judge.declared import Doubt
from ktdeval_judge.readers.frames import ordered_trades
from ktdeval_judge.readers.role_table import RoleTable, days_of
from ktdeval_judge.readers.roles import near_name

_FILLED = ("3", "filled")  # status of a filled order, as a number or as a name
_SATURDAY = 5
_NIGHT = pd.Timedelta(days=1)
_TOTALS = ("statisticstotalorders", "statisticstotaltrades")


def read_lean(tables: Sequence[RoleTable]) -> dict[str, object]:
    """Read the tables in a result, or in a file of order events. Raises DataError at the first
    fault.
    """
    found: dict[str, object] = {}
    facts = _facts(tables)
    for table in tables:
        names = {near_name(name): name for name in table.table.header}
        if table.table.name.lower().endswith("equity.values"):
            found.update(_equity(table, names, facts))

    orders = [each for each in tables if "lastfilltime" in map(near_name, each.table.header)]
    fills = _events(tables)
    if orders and "fillprice" not in map(near_name, orders[0].table.header):
        fills = _with_orders(orders[0], fills, facts)
    if fills is not None and len(fills):
        found["trades"] = ordered_trades(fills, tables[0].place)
    elif not found:
        raise DataError(f"{tables[0].place}: contains no filled order; export a period with trades")
    return found


def _facts(tables: Sequence[RoleTable]) -> Mapping[str, str]:
    """Return a result's statistics, keyed by near name."""
    for table in tables:
        if not table.table.name:
            return {
                near_name(str(name)): cells.iloc[0] for name, cells in table.table.cells.items()
            }
    return {}


# ---- equity


def _equity(
    table: RoleTable, names: Mapping[str, str], facts: Mapping[str, str]
) -> dict[str, object]:
    """Return account values by day, and the initial cash. LEAN also samples equity in nights after
    non-trading days. If the market's sessions are known, only sessions are used.
    """
    first, *others = table.table.header
    time = names.get("x", first)
    value = names.get("y", others[-1] if others else first)
    timed = replace(table, roles={"date": (time,)})
    filled = timed.where(timed.table.cells[value] != "")
    if not len(filled):
        raise DataError(f"{table.place}: is empty; export a finished backtest")

    moments = filled.moments()
    numbers = filled.numbers_in(value)
    order = moments.argsort(kind="stable")
    moments = moments.iloc[order].reset_index(drop=True)
    numbers = numbers.iloc[order].reset_index(drop=True)
    capital = float(numbers.iloc[0])
    is_night = moments == moments.dt.normalize()
    if is_night.iloc[0] and len(moments) > 1:
        # sampled when the algorithm started, before the first bar
        moments, numbers, is_night = moments.iloc[1:], numbers.iloc[1:], is_night.iloc[1:]

    days = days_of(moments.where(~is_night, moments - _NIGHT))
    by_day = numbers.groupby(days.to_numpy()).last()
    if table.sessions:
        is_session = by_day.index.isin(table.sessions)
        is_weekday = pd.to_datetime(by_day.index.astype(str)).day_of_week < _SATURDAY
        # values after the market's end are kept, so that they are refused with their day
        is_beyond = (by_day.index > table.sessions[-1]) & is_weekday
        by_day = by_day[is_session | is_beyond]
    index = pd.Index(by_day.index, name="day", dtype="int64")
    return {
        "values": pd.Series(by_day.to_numpy(dtype="float64"), index=index, name="value"),
        "cash": _start_equity(table, facts) or capital,
    }


def _start_equity(table: RoleTable, facts: Mapping[str, str]) -> float | None:
    """Return the initial cash from the statistics, or None if it is missing. Raises DataError if it
    is not valid.
    """
    written = facts.get("statisticsstartequity", "")
    if not written:
        return None

    start = float(pd.to_numeric(written, errors="coerce"))
    if not 0 < start < math.inf:
        raise DataError(
            f"{table.path}: Start Equity: expected a number above zero, was {written[:40]!r}"
        )
    return start


# ---- orders


def _with_orders(
    orders: RoleTable, events: pd.DataFrame | None, facts: Mapping[str, str]
) -> pd.DataFrame | None:
    """Return a result's fills, from order events and from orders that are completely filled and
    have no events. Return None if some orders are missing.
    """
    total = next((facts[name] for name in _TOTALS if facts.get(name)), "")
    if total.isdecimal() and int(total) > len(orders):
        orders.note(
            Doubt(
                f"The result contains {len(orders)} of {total} orders, so its trades are left out; "
                "give the file of order events."
            )
        )
        return None

    names = {near_name(name): name for name in orders.table.header}
    roles = {
        "date": (names["lastfilltime"],),
        "code": (names.get("symbolvalue", names.get("symbol", "")),),
    }
    placed = replace(orders, roles=roles)
    cells = orders.table.cells
    has_events = pd.Series(False, index=cells.index)
    if events is not None and "id" in names:
        has_events = cells[names["id"]].isin(events["order"])

    is_filled = cells[names["status"]].str.lower().isin(_FILLED)
    partly = int(((cells[names["lastfilltime"]] != "") & ~is_filled & ~has_events).sum())
    if partly:
        orders.note(
            Doubt(
                f"Left out, as filled in part: {count(partly, 'order')}; the file of order events has their"
                " fills."
            )
        )
    whole = _fills_of_signs(
        placed.where(is_filled & ~has_events), names["quantity"], names["price"]
    )
    return whole if events is None else pd.concat([whole, events], ignore_index=True)


def _events(tables: Sequence[RoleTable]) -> pd.DataFrame | None:
    """Return the fills among the order events, or None if the result has no order events."""
    for table in tables:
        names = {near_name(name): name for name in table.table.header}
        if "fillprice" not in names:
            continue

        code = names.get("symbolvalue", names.get("symbol", ""))
        roles = {"date": (names.get("time", ""),), "code": (code,)}
        placed = replace(table, roles=roles)
        size = names.get("fillquantity", "")
        if not size:
            raise placed.lacks("shares")
        sizes = placed.numbers_in(size, may_lack=True)
        placed = placed.where(sizes.fillna(1.0) != 0)
        fills = _fills_of_signs(placed, size, names["fillprice"])
        if "orderfeeamount" in names:
            fills["fee"] = placed.numbers_in(names["orderfeeamount"], may_lack=True)
        if "id" in names:
            fills["order"] = placed.table.cells[names["id"]]
        return fills
    return None


def _fills_of_signs(table: RoleTable, size: str, price: str) -> pd.DataFrame:
    """Return fills, given sizes that are negative for sales."""
    shares = table.numbers_in(size)
    prices = table.numbers_in(price)
    table.check(prices > 0, price, "expected a number above zero, was")
    return pd.DataFrame(
        {
            "moment": table.moments(),
            "code": table.codes(),
            "side": ["buy" if number > 0 else "sell" for number in shares],
            "shares": shares.abs(),
            "price": prices,
        }
    )
