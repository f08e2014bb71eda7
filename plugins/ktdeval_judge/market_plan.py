"""Turn declarations into a plan on a market: codes and days are looked up, and cash amounts are
converted to shares.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from ktdeval.errors import DataError
from ktdeval.market import MarketSnapshot, parse_code, parse_symbol
from ktdeval.trading import MarketRules, TradingConfig
from ktdeval.values import near_matches
from ktdeval_judge.declared import Declared
from ktdeval_judge.plan import PLAN_VERSION, DeclaredPlan, PlanForm, PlannedDay

Dated = Literal["decision", "fill"]
MAX_WEIGHT = 1.001  #: largest sum of a day's weights that can be 1 up to rounding
_MAX_SHOWN = 5


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
    table = _locate_rows(declared.source, table, snapshot)
    if declared.decisions is not None and dated == "decision":
        _check_last_day(declared.source, table, snapshot)
    if declared.decisions is not None and dated == "fill":
        table = _at_close_before(declared.source, table, snapshot)
    if declared.decisions is not None:
        made = _of_decisions(declared, table, snapshot, rules, keeps_others=keeps_others)
    else:
        made = _of_trades(declared, table, snapshot, rules)

    return replace(made, fees=_fees(declared, made.trades, snapshot))


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


def _at_close_before(source: str, table: Any, snapshot: MarketSnapshot) -> Any:
    first = table["row"].min()
    if first < 1:
        raise DataError(
            f"{source}: the market has no day before {snapshot.days[first]}, on which the "
            "decision was made (--dated fill); import earlier days"
        )
    return table.assign(row=table["row"] - 1)


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
    close if the venue fills at that close.
    """
    triples = []
    for each in table.itertuples():
        at_close = rules.venues[each.column].fill == "same_close"
        # An order that is filled during a day was decided at the previous close at the latest.
        row = int(each.row)
        if not at_close:
            row -= 1

        if row < 0:
            raise DataError(
                f"{declared.source}{_line(table, each.Index)}: the market has no day before"
                f" {snapshot.days[each.row]}, on which the trade was decided; import earlier days"
            )
        sign = 1.0 if each.side == "buy" else -1.0
        triples.append((row, snapshot.codes[each.column], sign * float(each.shares)))

    if "decided" in table:
        table = table.assign(decided_row=_rows(declared.source, table, "decided", snapshot))

    last = int(table["row"].max())
    plan = _plan("orders", triples, snapshot, rules, keeps_others=True)
    return MarketPlan(
        plan,
        min(row for row, _, _ in triples),
        _last_row(declared, snapshot, last),
        (),
        table,
        ("trades: each is executed as an order for its shares, decided at the previous close",),
    )


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


def _check_last_day(source: str, table: Any, snapshot: MarketSnapshot) -> None:
    rows = table["row"]
    last = rows.max()
    if last < len(snapshot.days) - 1:
        return

    line = _line(table, rows.idxmax())
    raise DataError(
        f"{source}{line}: {snapshot.days[last]} is the market's last day, so decisions made on it "
        "can't be filled; drop them, or import later days"
    )


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
