"""Turn declarations into a plan on a market: codes and days are looked up, and cash amounts are
converted to shares.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from ktdeval.cards import count
from ktdeval.errors import DataError
from ktdeval.market import FillRule, MarketSnapshot, parse_code, parse_symbol
from ktdeval.trading import MarketRules, TradingConfig
from ktdeval.values import near_matches
from ktdeval_judge.declared import Declared
from ktdeval_judge.market_hours import market_hours
from ktdeval_judge.plan import PLAN_VERSION, DeclaredPlan, PlanForm, PlannedDay
from ktdeval_judge.readers.options import Dated

MAX_WEIGHT = 1.001  #: largest sum of a day's weights that can be 1 up to rounding
_MAX_SHOWN = 5
_MISSED = (
    "{missed} of {rows} have a time after the fill price of their day: they are executed in the next "
    "session, because no fill comes before its row"
)


@dataclass(frozen=True)
class RefusedDecision:
    """A decision that no account could execute under the venue's rules."""

    day: str
    code: str
    reason: str


@dataclass(frozen=True)
class MarketPlan:
    """A plan on a market, with what was found while it was built."""

    plan: DeclaredPlan
    first_row: int  #: row of the first decision
    last_row: int  #: row of the last fill
    refused: tuple[RefusedDecision, ...]
    trades: Any  #: declared trades with the market's `column` and `row`, or None
    notes: tuple[str, ...]
    #: fees declared in the file, by market row, in currency units
    fees: Mapping[int, float] = field(default_factory=dict)
    #: plan whose trades fill on their declared days, although some would be filled before their
    #: own time; None if there are no such trades
    at_declared_days: DeclaredPlan | None = None
    left_out: tuple[str, ...] = ()  #: ISO days whose decisions the market is too short to fill


def market_plan(
    declared: Declared,
    snapshot: MarketSnapshot,
    trading: TradingConfig,
    *,
    keeps_others: bool = False,
    dated: Dated = "decision",
) -> MarketPlan:
    """Return a plan for declared decisions or trades. `dated` says what the days of decisions mean.
    Decisions that are dated by their fill were made at the previous close. Raises DataError, with
    the line, if the market lacks a code, if a day is not a session, or if the weights imply
    leverage.
    """
    table = declared.decisions if declared.decisions is not None else declared.trades
    if table is None or not len(table):
        raise DataError(f"{declared.source}: contains no decision and no trade")

    rules = MarketRules.of(snapshot, trading)
    _check_value_days(declared, snapshot)
    table = _locate_rows(declared.source, table, snapshot)
    if declared.decisions is None:
        made = _of_trades(declared, table, snapshot, rules)
        return replace(made, fees=_fees(declared, made.trades, snapshot))

    timing = _Timing(snapshot, rules)
    table = table.assign(row=_decided_rows(declared, table, timing, dated))
    kept, left_out, notes = _without_last_day(declared.source, table, snapshot)
    made = _of_decisions(declared, kept, snapshot, rules, keeps_others=keeps_others)
    return replace(
        made,
        fees=_fees(declared, made.trades, snapshot),
        left_out=left_out,
        notes=(*made.notes, *notes),
    )


def _check_value_days(declared: Declared, snapshot: MarketSnapshot) -> None:
    """Raise DataError if the file has account values after the market's last day."""
    if declared.values is None:
        return

    last = snapshot.days[-1]
    days = [iso_day(int(day)) for day in declared.values.index]
    beyond = [day for day in days if np.datetime64(day, "D") > last]
    if beyond:
        raise DataError(
            f"{declared.source}: the account value of {beyond[0]} is after {last}, the last day of "
            f"{snapshot.meta.name} ({count(len(beyond), 'such value')}); import later days, or drop "
            "these values"
        )


def _fees(declared: Declared, trades: Any, snapshot: MarketSnapshot) -> dict[int, float]:
    """Return a file's fees by market row. They come from its trades or, if trades have no fees,
    from its fees by day.
    """
    paid: Iterable[tuple[int, float]] = ()
    if trades is not None and "fee" in trades:
        paid = zip(trades["row"], trades["fee"], strict=True)
    elif declared.fees is not None:
        days = np.array([iso_day(int(day)) for day in declared.fees.index], dtype="datetime64[D]")
        paid = zip(np.searchsorted(snapshot.days, days), declared.fees, strict=True)

    fees: dict[int, float] = {}
    for row, fee in paid:
        is_known = fee == fee
        if is_known:
            fees[int(row)] = fees.get(int(row), 0.0) + float(fee)

    return fees


def _locate_rows(source: str, table: Any, snapshot: MarketSnapshot) -> Any:
    """Return a table to which the market's `column` and `row` are added."""
    return table.assign(
        column=_columns(source, table, snapshot), row=_rows(source, table, "day", snapshot)
    )


# ---- decisions


class _Timing:
    """Find the rows at whose closes orders are decided, so that no fill comes before a row's time."""

    def __init__(self, snapshot: MarketSnapshot, rules: MarketRules) -> None:
        self._venues = snapshot.venues
        self._hours = market_hours(snapshot)
        self._rules = rules

    def decided_row(self, each: Any) -> int:
        """Return the row at whose close an order is decided that is filled in the session of a
        table's row, or in the next session if that fill would come before the row's time.
        """
        row = int(each.row)
        if self.is_missed(each):
            row += 1
        if self._fill_of(each) == "same_close":
            return row
        return row - 1

    def is_missed(self, each: Any) -> bool:
        """Return whether the fill in the session of a table's row comes before the row's time."""
        hours = self._hours[self._venues[int(each.column)]]
        return hours.is_missed(
            int(each.row), float(getattr(each, "minute", 0.0)), self._fill_of(each)
        )

    def is_missed_by_close(self, each: Any) -> bool:
        """Return whether the row's time is after the close of its day, at which it would be filled."""
        return self._fill_of(each) == "same_close" and self.is_missed(each)

    def _fill_of(self, each: Any) -> FillRule:
        return self._rules.venues[int(each.column)].fill


def _decided_rows(declared: Declared, table: Any, timing: _Timing, dated: Dated) -> list[int]:
    """Return the market row at whose close each decision was made."""
    rows = []
    is_by_fill = dated == "fill" and not declared.is_dated
    for each in table.itertuples():
        row = int(each.row)
        if is_by_fill:
            row = timing.decided_row(each)
        elif timing.is_missed_by_close(each):
            row += 1

        if row < 0:
            raise DataError(
                f"{declared.source}{_line(table, each.Index)}: the market has no day before "
                f"{iso_day(int(each.day))}, on which the decision was made (--dated fill); import "
                "earlier days"
            )
        rows.append(row)
    return rows


def _without_last_day(
    source: str, table: Any, snapshot: MarketSnapshot
) -> tuple[Any, tuple[str, ...], tuple[str, ...]]:
    """Return the rows that the market can fill, the days of the others, and a note on these. Raises
    DataError if no row is left.
    """
    last = len(snapshot.days) - 1
    is_late = table["row"] >= last
    if not is_late.any():
        return table, (), ()

    day = str(snapshot.days[last])
    if is_late.all():
        line = _line(table, table.index[0])
        raise DataError(
            f"{source}{line}: {day} is the market's last day, so decisions made on it can't be "
            "filled; drop them, or import later days"
        )
    note = (
        f"Left out: {count(int(is_late.sum()), 'row')} decided on {day}, the market's last day, "
        "because nothing is filled after it; import later days to judge them"
    )
    return table[~is_late].reset_index(drop=True), (day,), (note,)


def _of_decisions(
    declared: Declared, table: Any, snapshot: MarketSnapshot, rules: MarketRules, keeps_others: bool
) -> MarketPlan:
    form: PlanForm = "orders"
    numbers: Sequence[float]
    refused: list[RefusedDecision] = []
    if "weight" in table:
        form = "weight"
        numbers = table["weight"].tolist()
        _check_weights(declared.source, table)
    elif "shares" in table:
        form = "shares"
        numbers = table["shares"].tolist()
    else:
        numbers = _sign_shares(declared.source, table, snapshot)

    triples = []
    for row, column, number in zip(table["row"], table["column"], numbers, strict=True):
        code = snapshot.codes[column]
        if form != "orders" and number < 0 and rules.terms[column].margin is None:
            reason = f"a short position, but the venue {rules.venues[column].name} is long only"
            refused.append(RefusedDecision(str(snapshot.days[row]), code, reason))
            number = 0.0  # the venue does not allow short positions
        triples.append((int(row), code, float(number)))

    if form != "orders":
        _check_once_a_day(declared.source, table, snapshot)
    rows = [row for row, _, _ in triples]
    first = min(rows)
    last = max(rows) + 1
    trades = None
    if declared.trades is not None:
        # the program's own fills are not executed, but compared with its decisions
        trades = _locate_rows(declared.source, declared.trades, snapshot)
        first = min(first, int(trades["row"].min()))
        last = max(last, int(trades["row"].max()))

    plan = _plan(form, triples, snapshot, rules, keeps_others=keeps_others)
    last_row = _last_row(declared, snapshot, last)
    return MarketPlan(plan, first, last_row, tuple(refused), trades, ())


def _check_once_a_day(source: str, table: Any, snapshot: MarketSnapshot) -> None:
    """Raise DataError if a day states the target of an asset twice, under two of its codes."""
    repeated = table.duplicated(["row", "column"], keep=False)
    if not repeated.any():
        return

    first = table[repeated].iloc[0]
    same = table[(table["row"] == first["row"]) & (table["column"] == first["column"])]
    codes = " and ".join(dict.fromkeys(map(str, same["code"])))
    line = _line(table, same.index[1])
    raise DataError(
        f"{source}{line}: {snapshot.days[first['row']]} has two targets for "
        f"{snapshot.codes[first['column']]}, as {codes}; keep one row"
    )


def _check_weights(source: str, table: Any) -> None:
    for day, weights in table.groupby("day", sort=True)["weight"]:
        total = float(weights[weights > 0].sum())
        if total <= MAX_WEIGHT:
            continue

        line = _line(table, weights.index[0])
        words = f"{source}{line}: weights of {iso_day(day)} sum to {total:.4g}, but the account"
        words += " borrows no cash; "
        if total > 20:
            words += "write fractions of the account, such as 0.05 for 5 %"
        else:
            words += "divide them by their sum, or judge the leveraged account as a NAV"
        raise DataError(words)


def _sign_shares(source: str, table: Any, snapshot: MarketSnapshot) -> list[float]:
    """Return the number of shares in each order, negative for sells. Cash amounts are converted at
    the last close.
    """
    signed = []
    for index, each in enumerate(table.itertuples()):
        sign = 1.0 if each.side == "buy" else -1.0
        if "amount" in table:
            signed.append(sign * float(each.amount))
            continue

        closes = snapshot.close[: each.row + 1, each.column]
        known = closes[np.isfinite(closes)]
        if not len(known):
            line = _line(table, index)
            raise DataError(
                f"{source}{line}: {snapshot.codes[each.column]} has no close by "
                f"{snapshot.days[each.row]}, so cash can't be converted to shares; drop the row"
            )
        signed.append(sign * float(each.cash) / float(known[-1]))

    return signed


# ---- trades


def _of_trades(
    declared: Declared, table: Any, snapshot: MarketSnapshot, rules: MarketRules
) -> MarketPlan:
    """Return a plan for trades. A trade is decided at the close before its fill, or at the same
    close if the venue fills at that close. A trade with a time after that fill is filled in the next
    session.
    """
    timing = _Timing(snapshot, rules)
    rows = []
    usual = []
    signed = []
    for each in table.itertuples():
        row = timing.decided_row(each)
        rows.append(row)
        usual.append(row - timing.is_missed(each))
        sign = 1.0 if each.side == "buy" else -1.0
        signed.append(sign * float(each.shares))
        if usual[-1] < 0:
            raise DataError(
                f"{declared.source}{_line(table, each.Index)}: the market has no day before"
                f" {snapshot.days[each.row]}, on which the trade was decided; import earlier days"
            )

    if "decided" in table:
        table = table.assign(decided_row=_rows(declared.source, table, "decided", snapshot))

    codes = [snapshot.codes[column] for column in table["column"]]
    table = table.assign(planned=rows)
    ordered = table.assign(row=rows, code=codes, signed=signed)
    kept, left_out, notes = _without_last_day(declared.source, ordered, snapshot)
    plan = _orders_plan(_net_orders(kept), snapshot, rules)
    at_declared_days = None
    missed = int(np.sum(np.array(rows) != np.array(usual)))
    if missed:
        at_declared_days = _orders_plan(ordered.assign(row=usual), snapshot, rules)
        notes = (_MISSED.format(missed=missed, rows=count(len(table), "trade")), *notes)

    last = max(int(table["row"].max()), int(kept["row"].max()) + 1)
    return MarketPlan(
        plan,
        min(usual),
        _last_row(declared, snapshot, last),
        (),
        table,
        (
            "trades: each is executed as an order for its shares, decided at the previous close",
            *notes,
        ),
        at_declared_days=at_declared_days,
        left_out=left_out,
    )


def _net_orders(table: Any) -> Any:
    """Return trades of which those of different days and opposite sides that fall on one open are one
    order. A purchase that waits for the open at which its sale is due is not made at all.
    """
    groups = table.groupby(["row", "code"])
    days = groups["day"].transform("nunique")
    smallest = groups["signed"].transform("min")
    largest = groups["signed"].transform("max")
    is_mixed = (days > 1) & (smallest < 0) & (largest > 0)
    if not is_mixed.any():
        return table

    net = table[is_mixed].groupby(["row", "code"], as_index=False)["signed"].sum()
    rest = table[~is_mixed][["row", "code", "signed"]]
    return pd.concat([rest, net[net["signed"] != 0]], ignore_index=True)


def _orders_plan(table: Any, snapshot: MarketSnapshot, rules: MarketRules) -> DeclaredPlan:
    triples = list(zip(table["row"], table["code"], table["signed"], strict=True))
    return _plan("orders", triples, snapshot, rules, keeps_others=True)


# ---- shared


def _plan(
    form: PlanForm,
    triples: Iterable[tuple[int, str, float]],
    snapshot: MarketSnapshot,
    rules: MarketRules,
    keeps_others: bool,
) -> DeclaredPlan:
    by_row: dict[int, list[tuple[str, float]]] = {}
    for row, code, number in triples:
        by_row.setdefault(row, []).append((code, number))

    days = []
    for row in sorted(by_row):
        # the order of codes does not depend on the order in the file
        rows = sorted(by_row[row], reverse=True)
        days.append(PlannedDay(day=str(snapshot.days[row]), rows=tuple(rows)))

    named = sorted({code for _, code, _ in triples})
    lots = {}
    for code in named:
        column = snapshot.asset_index[code]
        lot = rules.terms[column].lot / rules.scales[column].steps_per_unit
        if lot >= 1.0:
            lots[code] = lot

    others: Any = "keep" if keeps_others or form == "orders" else "sell"
    return DeclaredPlan(
        version=PLAN_VERSION,
        form=form,
        others=others,
        days=tuple(days),
        lots=lots,
        labels=_labels(named, snapshot),
    )


def _labels(
    codes: Sequence[str], snapshot: MarketSnapshot
) -> dict[str, tuple[tuple[str, str], ...]]:
    """Return the codes by which the market names renumbered assets, as in `DeclaredPlan.labels`."""
    renumbered = {spell.code for spell in snapshot.spells if spell.code_then != spell.code}
    labels = {}
    for code in renumbered.intersection(codes):
        own: list[tuple[str, str]] = []
        for row, day in enumerate(snapshot.days):
            label, _ = snapshot.name_asset(snapshot.asset_index[code], row)
            if not own or own[-1][1] != label:
                own.append((str(day), label))

        labels[code] = tuple(own)

    return dict(sorted(labels.items()))


def _last_row(declared: Declared, snapshot: MarketSnapshot, last: int) -> int:
    """Return the row of the last fill day, or of the last declared account value if it is later."""
    most = len(snapshot.days) - 1
    if declared.values is not None and len(declared.values):
        day = np.datetime64(iso_day(int(declared.values.index[-1])), "D")
        last = max(last, int(np.searchsorted(snapshot.days, day, side="right")) - 1)

    return min(last, most)


def _columns(source: str, table: Any, snapshot: MarketSnapshot) -> list[int]:
    """Return the market column for each row's code. Raises DataError if the market lacks a code, or
    if two of its assets have it.
    """
    known: dict[str, int] = {}
    unknown: list[str] = []
    for code in dict.fromkeys(map(str, table["code"])):
        columns = columns_of(code, snapshot)
        if len(columns) > 1:
            line = _line(table, table.index[table["code"] == code][0])
            raise DataError(f"{source}{line}: {_two_assets(code, columns, snapshot)}")

        if columns:
            known[code] = columns[0]
        else:
            unknown.append(code)

    if unknown:
        first = unknown[0]
        line = _line(table, table.index[table["code"] == first][0])
        names = (*snapshot.codes, *snapshot.former_codes)
        near = near_matches(first, names) or _examples(snapshot)
        more = ""
        if len(unknown) > 1:
            shown = ", ".join(repr(each[:24]) for each in unknown[1:_MAX_SHOWN])
            more = f" ({len(unknown)} codes in all, {shown})"
        raise DataError(
            f"{source}{line}: {first[:24]!r} is not a code of {snapshot.meta.name}{near}{more}"
        )

    return [known[str(code)] for code in table["code"]]


def columns_of(code: str, snapshot: MarketSnapshot) -> tuple[int, ...]:
    """Return the market columns of the assets that have a code on any day, in any common spelling:
    today's code of an asset, or a former one. Empty if the market lacks the code; two or more if
    another asset has taken it over.
    """
    for spelling in (code, parse_code(code), parse_symbol(code)):
        columns = () if spelling is None else snapshot.assets_called(spelling)
        if columns:
            return columns

    return ()


def _two_assets(code: str, columns: Sequence[int], snapshot: MarketSnapshot) -> str:
    own = " and ".join(f"{snapshot.codes[column]} ({snapshot.names[column]})" for column in columns)
    return (
        f"{code!r} is the code of two assets of {snapshot.meta.name}, one after the other: {own}; "
        "give one of them another code in the market's files and in this one"
    )


def _examples(snapshot: MarketSnapshot) -> str:
    return f"; examples of its codes: {', '.join(snapshot.codes[:3])}"


def _rows(source: str, table: Any, column: str, snapshot: MarketSnapshot) -> list[int]:
    """Return the market row for each day. Raises DataError if a day is not a session."""
    days = np.array([iso_day(int(day)) for day in table[column]], dtype="datetime64[D]")
    rows = np.searchsorted(snapshot.days, days)
    inside = np.minimum(rows, len(snapshot.days) - 1)
    wrong = np.flatnonzero(snapshot.days[inside] != days)
    if len(wrong):
        day = days[wrong[0]]
        line = _line(table, table.index[wrong[0]])
        raise DataError(f"{source}{line}: {_no_session(day, snapshot, len(set(days[wrong])))}")

    return [int(row) for row in rows]


def _no_session(day: np.datetime64, snapshot: MarketSnapshot, count: int) -> str:
    first = snapshot.days[0]
    last = snapshot.days[-1]
    if not first <= day <= last:
        return f"{day} lies outside {snapshot.meta.name}, {first} … {last}; choose other data"

    row = int(np.searchsorted(snapshot.days, day))
    more = "" if count == 1 else f" ({count} such days)"
    return (
        f"{day} is not a trading day of {snapshot.meta.name}{more}; the nearest sessions are "
        f"{snapshot.days[row - 1]} and {snapshot.days[row]}; write the session at whose close the "
        "decision was made"
    )


def _line(table: Any, index: Any) -> str:
    if "line" not in table:
        return ""
    return f": line {int(table['line'].loc[index])}"


def iso_day(day: int) -> str:
    """Return a yyyymmdd day in ISO format."""
    return f"{day // 10_000:04d}-{day // 100 % 100:02d}-{day % 100:02d}"
