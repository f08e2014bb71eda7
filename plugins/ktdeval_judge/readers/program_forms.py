"""Forms for individual programs, for which column names are not sufficient."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from ktdeval.errors import DataError
from ktdeval_judge.declared import DeclaredBooks
from ktdeval_judge.readers.fill_days import decision_days
from ktdeval_judge.readers.forms import FormOptions
from ktdeval_judge.readers.frames import (
    SAME_CLOSE,
    first_value_of,
    ordered_orders,
    ordered_trades,
    targets_of,
    values_of,
)
from ktdeval_judge.readers.keys import check_target_keys
from ktdeval_judge.readers.role_table import ONE_ROW_A_DAY, RoleTable, days_of
from ktdeval_judge.readers.wide import wide_numbers

_SOLD = "-1"  # status by which Qlib's `parse_position` marks an asset that was sold on the day
_FILLED_BOOK = (
    "Positions are Qlib's holdings after its fills; orders that it could not fill are not "
    "decisions here."
)
_NO_FACTOR = (
    "Amounts are read as shares, which is right if $factor is 1; otherwise add a column factor."
)
_ROUNDING = 1e-3  # tolerance for the sum of weights
_ARRAY = r"^\[\s*(-?[0-9.]+)\s*\]$"  # array with one asset, as written by pandas
_TIERS = ("buy", "overweight", "hold", "underweight", "sell")
_LABEL = re.compile(r"rating[^\n]{0,200}?[:\-][\s*]*([A-Za-z]+)", re.IGNORECASE)
_PROPOSAL = re.compile(r"final transaction proposal[\s:*]*([A-Za-z]+)", re.IGNORECASE)
# marks around a word; TradingAgents itself only handles the first set
_MARKS = ("*:.,", "*:.,()[]")
_SIZES = (
    "Ratings give no size. Each asset in the logs gets an equal share of the account: Buy fills "
    "that share, Sell empties it, Overweight moves halfway up, Underweight halfway down. A day on "
    "which all ratings are Hold trades nothing; any other day rebalances all assets."
)
_SHORTS = "short is read as sell, cover as buy."

Found = dict[str, Any]


# ---- Qlib


def read_qlib_report(table: RoleTable, _options: FormOptions) -> Found:
    """Read Qlib's `report_normal`, in which `return` excludes costs: account = previous account *
    (1 + return - cost).
    """
    moments = table.moments()
    account = table.positive("nav")
    returns = table.numbers_in("return")
    costs = table.numbers_in("cost")
    growth = 1.0 + returns - costs
    table.check(growth > 0, "return", "the account falls to 0; write returns as fractions: ")
    before = account / growth
    found: Found = {
        "values": values_of(table, moments, account),
        "fees": values_of(table, moments, costs * before).rename("fees"),
        "cash": round(float(before.iloc[int(moments.to_numpy().argmin())]), 4),
    }
    if table.has("benchmark return"):
        bench = table.numbers("benchmark return")
        found["benchmark"] = values_of(table, moments, bench).rename("benchmark")
    return found


def read_qlib_positions(table: RoleTable, _options: FormOptions) -> Found:
    """Read Qlib's positions after each day's trades. The portfolio was decided on the previous
    trading day.
    """
    cells = table.table.cells
    if "status" in cells:
        table = table.where(pd.to_numeric(cells["status"], errors="coerce") != float(_SOLD))

    shares = table.numbers("position")
    table.note(_FILLED_BOOK)
    if "factor" in table.table.header and (table.table.cells["factor"] != "").any():
        shares = shares * table.numbers_in("factor", may_lack=True).fillna(1.0)
    else:
        table.note(_NO_FACTOR)
    books = pd.DataFrame({"code": table.codes(), "shares": shares})
    books["day"] = decision_days(table)
    check_target_keys(table, books)
    words = "{code} appears twice on one day; keep one row"
    table.check_once(books[["day", "code"]], table.column("code"), words)

    # if a session between the first and the last day has no rows, the portfolio is empty
    days = set(books["day"])
    within = [day for day in table.sessions if min(days) < day < max(days)]
    code = books["code"].iloc[0]
    empty = [(code, 0.0, day) for day in within if day not in days]
    books = pd.concat([books, pd.DataFrame(empty, columns=["code", "shares", "day"])])
    decisions = targets_of(books.astype({"shares": "float64"}), "shares", table.place)
    return {"decisions": decisions, "is_dated": True}


# ---- FinRL


def read_actions(table: RoleTable, _options: FormOptions) -> Found:
    """Read FinRL's actions. They are either shares bought or sold at the day's close, or weights.
    Weights earned the return of their day, and were decided on the day of the previous row.
    """
    codes = [name for name in table.table.header if name != table.column("date")]
    if "actions" in codes:
        raise DataError(
            f"{table.place}: column 'actions' does not name the asset; rename it to the asset's "
            "code, and give --from finrl"
        )

    cells = table.table.cells.copy()
    for code in codes:
        cells[code] = cells[code].str.replace(_ARRAY, r"\1", regex=True)
        numbers = pd.to_numeric(cells[code], errors="coerce")
        table.check(numbers.notna(), code, "expected a number, was")
    actions = pd.DataFrame({code: pd.to_numeric(cells[code]) for code in codes}, dtype="float64")
    days = days_of(table.moments())
    table.check_once(days.to_frame("day"), table.column("date"), ONE_ROW_A_DAY)

    table.note(SAME_CLOSE.format(program="FinRL"))
    long = actions.assign(day=days).melt("day", var_name="code", value_name="number")
    if _are_weights(actions):
        table.note("Weights are dated one day after their decision; the first row was never held.")
        before = dict(zip(days.tolist(), decision_days(table), strict=True))
        books = long[long["day"] > days.min()]
        books = books.assign(day=books["day"].map(before))
        decisions = targets_of(_as_days(books, "weight"), "weight", table.place)
        return {"decisions": decisions, "is_dated": True}

    table.note(
        "Actions are those that FinRL filled, after applying its own limits on cash and shares."
    )
    long = long[long["number"] != 0.0]
    orders = long.assign(
        side=np.where(long["number"] > 0, "buy", "sell"), amount=long["number"].abs()
    )
    return {"decisions": ordered_orders(orders[["day", "code", "side", "amount"]], table.place)}


def _are_weights(actions: pd.DataFrame) -> bool:
    """Return whether actions are weights, which come from the portfolio environment. If they were
    shares, they would be integers.
    """
    is_whole = (actions % 1.0 == 0.0).all(axis=1)
    sums_to_one = (actions.sum(axis=1) - 1.0).abs() <= _ROUNDING
    return bool((sums_to_one & (actions >= 0.0).all(axis=1) & ~is_whole).all())


def _as_days(books: pd.DataFrame, form: str) -> pd.DataFrame:
    return books.rename(columns={"number": form}).astype({"day": "int64"})


# ---- values of wide tables


def read_one_value(table: RoleTable, options: FormOptions) -> Found:
    """Read account values from the only column other than the day column."""
    names = [name for name in table.table.header if name != table.column("date")]
    if len(names) != 1:
        shown = ", ".join(names)[:200] or "none"
        raise DataError(
            f"{table.place}: expected the values of one strategy, found columns: {shown}; keep "
            "one, or let them share the cash (cash_sharing=True)"
        )

    moments = table.moments()
    numbers = table.numbers_in(names[0])
    values = values_of(table, moments, numbers)
    start = first_value_of(moments, numbers)
    first = float(values.iloc[0])
    if options.cash == "only":
        return {"cash": first}
    if options.cash == "before":
        return {"values": values.iloc[1:], "cash": first}
    return {"values": values, "cash": start}


def read_sum_of_positions(table: RoleTable, _options: FormOptions) -> Found:
    """Read positions in money, which include a cash column. Their sum is the account value."""
    names = [name for name in table.table.header if name != table.column("date")]
    total = wide_numbers(table, names).sum(axis=1)
    index = pd.Index(total.index, name="day", dtype="int64")
    return {"values": pd.Series(total.to_numpy(), index=index, name="value")}


# ---- ai-hedge-fund


def read_benchmark(table: RoleTable, _options: FormOptions) -> Found:
    """Read the benchmark's levels, and convert them to returns between the dates, which begin after
    the first date.
    """
    levels = values_of(table, table.moments(), table.positive("benchmark"))
    returns = levels.pct_change().dropna().rename("benchmark")
    found: Found = {"cash": table.fact("initial cash")}
    if len(returns):
        found["benchmark"] = returns
    return found


def read_final_weights(table: RoleTable, _options: FormOptions) -> Found:
    """Read a fund's records: its weights after each day's fills, and its account value."""
    weights = _by_code(table, "final_weights.")
    long = weights.melt("day", var_name="code", value_name="weight").dropna()
    values = values_of(table, table.moments(), table.numbers("nav"))
    return {"decisions": targets_of(long, "weight", table.place), "values": values}


def read_decisions_by_code(table: RoleTable, _options: FormOptions) -> Found:
    """Read records in version 1. For each day and code, they have a decision, the shares executed
    and the price.
    """
    table.note(_SHORTS)
    moments = table.moments()
    found: Found = {"values": values_of(table, moments, table.numbers_in("portfolio_value"))}
    orders = []
    fills = []
    for column in table.table.header:
        code = column.removeprefix("decisions.").removesuffix(".action")
        if column != f"decisions.{code}.action":
            continue

        rows = table.where(table.table.cells[column] != "")
        made = replace(rows, roles={**rows.roles, "side": (column,)}, code="", notes=[])
        sides = made.sides()
        amounts = made.numbers_in(f"decisions.{code}.quantity")
        acting = made.where((sides != "hold") & (amounts != 0))
        frame = pd.DataFrame({"moment": acting.moments(), "code": code, "side": acting.sides()})
        amounts = acting.numbers_in(f"decisions.{code}.quantity")
        orders.append(frame.assign(day=days_of(frame["moment"]), amount=amounts))
        executed = acting.numbers_in(f"executed_trades.{code}", may_lack=True).fillna(0.0)
        prices = acting.numbers_in(f"current_prices.{code}", may_lack=True)
        fills.append(frame.assign(shares=executed, price=prices)[executed != 0])

    decided = pd.concat(orders)[["day", "code", "side", "amount"]]
    found["decisions"] = ordered_orders(decided, table.place)
    filled = pd.concat(fills)
    if len(filled):
        found["trades"] = ordered_trades(filled, table.place)
    return found


def _by_code(table: RoleTable, start: str) -> pd.DataFrame:
    """Return the number columns whose names have this prefix, renamed to the code after the prefix,
    and their days.
    """
    columns = [column for column in table.table.header if column.startswith(start)]
    numbers = {name.removeprefix(start): table.numbers_in(name, may_lack=True) for name in columns}
    return pd.DataFrame(numbers, index=table.table.cells.index).assign(day=days_of(table.moments()))


# ---- AI-Trader


def read_positions_by_code(table: RoleTable, _options: FormOptions) -> Found:
    """Read snapshots of positions, with columns `positions.CODE`. A snapshot shows the positions
    after its fills. Of several snapshots that are filled at one open, the last counts.
    """
    held = _by_code(table, "positions.").drop(columns="day")
    held = held.assign(
        day=decision_days(table), moment=table.moments(), id=table.numbers_in("id")
    ).sort_values(["moment", "id"], kind="stable")
    cash = float(held["CASH"].iloc[0])
    account = _books_of(held)
    books = (
        held.drop_duplicates("day", keep="last").drop(columns=["CASH", "moment", "id"]).fillna(0.0)
    )
    books = books.set_index("day")
    books = books.loc[:, (books != 0).any()]
    books = books[(books != 0).any(axis=1).cummax()]
    if books.empty:
        raise DataError(
            f"{table.place}: holds no position on any day; give positions after a purchase"
        )

    long = books.reset_index().melt("day", var_name="code", value_name="shares")
    decisions = targets_of(long, "shares", table.place)
    return {"decisions": decisions, "cash": cash, "is_dated": True, "books": account}


def _books_of(held: pd.DataFrame) -> DeclaredBooks:
    """Return the account after each snapshot. Codes that are never held are left out."""
    shares = held.drop(columns=["CASH", "day", "moment", "id"]).fillna(0.0)
    shares = shares.loc[:, (shares != 0).any()]
    return DeclaredBooks(
        codes=tuple(map(str, shares.columns)),
        days=tuple(days_of(held["moment"]).tolist()),
        decided=tuple(held["day"].tolist()),
        cash=held["CASH"].to_numpy(dtype=np.float64),
        shares=shares.to_numpy(dtype=np.float64),
    )


# ---- TradingAgents


def read_ratings(tables: Sequence[RoleTable]) -> Found:
    """Read the ratings in all logs together, because weights depend on the number of assets."""
    ratings: dict[tuple[int, str], str] = {}
    for table in tables:
        texts = table.table.cells["final_trade_decision"]
        rows = zip(days_of(table.moments()), table.codes(), texts, strict=True)
        for row, (day, code, text) in enumerate(rows):
            rating = rating_of(text)
            if ratings.setdefault((int(day), code), rating) != rating:
                words = f"{code[:40]} has two ratings on {day}; keep one log"
                table.refuse(row, table.column("date"), words)

    first = tables[0]
    first.note(_SIZES)
    unrated = sum(not rating for rating in ratings.values())
    if unrated == len(ratings):
        raise DataError(
            f"{first.path}: final_trade_decision names none of {', '.join(_TIERS)}: write its "
            "rating, as"
            " Rating: Buy"
        )
    if unrated:
        first.note(f"Decisions without a rating are read as Hold, as in TradingAgents: {unrated}.")
    return {"decisions": targets_of(_books(ratings), "weight", first.path)}


def rating_of(text: str) -> str:
    """Return the rating in the text of a decision, or an empty string if it has no rating. The
    search looks first after the word "rating", then in a final transaction proposal, then for the
    first word that is a rating, and last for a rating in brackets.
    """
    for pattern in (_LABEL, _PROPOSAL):
        for line in text.splitlines():
            found = pattern.search(line)
            if found and found[1].lower() in _TIERS:
                return found[1].lower()

    words = text.lower().split()
    for marks in _MARKS:
        for word in words:
            bare = word.strip(marks)
            if bare in _TIERS:
                return bare
    return ""


def _books(ratings: Mapping[tuple[int, str], str]) -> pd.DataFrame:
    """Return target weights for all assets rated so far, for each day with a rating other than
    Hold.
    """
    share = 1.0 / max(len({code for _, code in ratings}), 1)
    book: dict[str, float] = {}
    books: dict[int, dict[str, float]] = {}
    moving: set[int] = set()
    for day, code in sorted(ratings):
        held = book.get(code, 0.0)
        moved = {
            "buy": share,
            "overweight": (held + share) / 2,
            "underweight": held / 2,
            "sell": 0.0,
        }
        rating = ratings[day, code]
        book[code] = moved.get(rating, held)
        if rating in moved:
            moving.add(day)
        books[day] = dict(book)

    rows = [(day, code, weight) for day in sorted(moving) for code, weight in books[day].items()]
    return pd.DataFrame(rows, columns=["day", "code", "weight"])


PROGRAM_FORMS: Mapping[str, Callable[[RoleTable, FormOptions], Found]] = {
    "qlib_report": read_qlib_report,
    "qlib_positions": read_qlib_positions,
    "actions": read_actions,
    "one_value": read_one_value,
    "sum_of_positions": read_sum_of_positions,
    "benchmark": read_benchmark,
    "final_weights": read_final_weights,
    "decisions_by_code": read_decisions_by_code,
    "positions_by_code": read_positions_by_code,
}
