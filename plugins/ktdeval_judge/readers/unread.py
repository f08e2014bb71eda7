"""Handle columns whose role is known but that a form does not use. Such a column is listed in a
note or, if it changes the meaning of a row, rejected.

A column changes nothing if its cells carry no information, that is, if all are empty or 0 (for a
multiplier, empty or 1).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

import pandas as pd

from ktdeval.errors import DataError
from ktdeval_judge.readers.role_table import RoleTable, kinds_in
from ktdeval_judge.readers.roles import is_kind, near_name, words_of
from ktdeval_tables.numbers import parse_figures

_REFUSED: Mapping[str, str] = {
    "flow": (
        "it is not a return: give --flows {column!r}, remove it from the values, or give the "
        "returns"
    ),
    "multiplier": "write shares as held, and drop the column",
    "contract": "keep only rows of shares, and drop the column",
}
"""Role -> advice on a cell that carries information."""
_LIMIT = "orders are executed at the day's price; give only filled orders, as trades"
_TWO_ROWS = (
    "if each row is a whole trade, give its exit, too (exit_date, exit_price); if each row is one "
    "fill, leave the profits out: --map profit=-"
)
_ACTS = frozenset({"buy", "sell"})
_EVENTS = frozenset({"open", "close"})
_FLAGS = frozenset({"true", "false", "0", "1", "yes", "no", "t", "f", "y", "n"})
_FLAG_NAMES = frozenset({"sell", "long", "short", "seller", "issell"})
_SAYS_EVENT = r"\b(?:entry|exit)\b|进场|出场"  # words for events in a side column
_MAX_WORDS = 12  # maximum number of distinct words in a side column
_HALF = 0.5
_FEES = 0.01  # maximum fees, as a share of the value traded
OTHER_SIZES = (
    "contracts or lots with a multiplier, another currency, or other sides: write shares, sides "
    "and prices"
    " of the account; if the profits are wrong, leave them out: --map profit=-"
)
# tolerance, as a share of a value, within which the value's change equals the profit in the file
_SLACK = 1e-3
_EPSILON = 1e-9  # a position with fewer shares than this is closed
_PRICES = ("price", "filled price", "entry price", "exit price")
# characters of a price that are not its currency
_FIGURE = r"[-+−0-9.,'()\s]|[0-9]e[-+][0-9]+|(?<=[0-9])[kKmM]$"
_OF_VALUES = ("values", "returns")
_TARGETS = ("weights", "holdings")
_READ: Mapping[str, frozenset[str]] = {
    "fills": frozenset({"price", "filled price", "shares", "filled shares", "fee", "total fee"}),
    "orders": frozenset({"shares", "cash"}),
    "weights": frozenset({"weight"}),
    "holdings": frozenset({"shares", "position"}),
    "values": frozenset({"nav", "benchmark return"}),
    "returns": frozenset({"return", "return fraction", "return percent", "log return"}),
    "closed": frozenset(
        {"entry price", "exit price", "entry fee", "exit fee", "fee", "total fee", "shares", "price",
         "profit", "entry value", "is short", "entry fee rate", "exit fee rate"}
    ),
}  # fmt: skip
_SILENT = frozenset(
    {"date", "time", "code", "side", "is buy", "status", "decided", "entry date", "exit date", "amount",
     "currency", "effect", "flow", "multiplier", "contract", "balance", "cumulative return", "benchmark",
     "fee coin"}
)  # fmt: skip


def check_unread(
    form: str, table: RoleTable, flows: str = "", found: pd.DataFrame | pd.Series | None = None
) -> None:
    """Raise DataError if an unread column determines the meaning of its rows. Other unread columns
    are listed in a note. `flows`: the flow column that the user names. `found`: fills with moment,
    code, side and shares, or account values by day.
    """
    _refuse_meanings(form, table, flows)
    _check_currency(form, table)
    if form == "orders":
        _refuse_said(table, "limit", _LIMIT, flows)
    if form == "fills" and isinstance(found, pd.DataFrame):
        _check_profits(table, found)
    if form == "values" and isinstance(found, pd.Series):
        _check_changes(table, found, flows)
    if form in _TARGETS:
        _check_sides(table)
    if form not in _OF_VALUES:
        _check_acts(form, table)

    unread = []
    for role, columns in table.roles.items():
        if role not in _SILENT and role not in _READ.get(form, frozenset()) and table.has(role):
            unread += [repr(column) for column in columns]
    if unread:
        table.note(f"Not read: {', '.join(unread)}.")


def _refuse_meanings(form: str, table: RoleTable, flows: str) -> None:
    """Raise DataError if a column changes the meaning of a row. For account values, a strike or a
    premium is allowed.
    """
    for role, advice in _REFUSED.items():
        if role != "contract" or form not in _OF_VALUES:
            _refuse_said(table, role, advice, flows)


def _refuse_said(table: RoleTable, role: str, advice: str, flows: str) -> None:
    """Raise DataError at the first cell that carries information, in a column with this role."""
    nothing = 1.0 if role == "multiplier" else 0.0
    for column in table.roles.get(role, ()):
        if column == flows:
            continue
        cells = table.table.cells[column]
        numbers, bad = parse_figures(cells, table.table.decimal)
        is_silent = (numbers.isna() & ~bad) | (numbers == nothing)
        if not is_silent.all():
            row = int((~is_silent).to_numpy().argmax())
            words = f"{cells.iloc[row][:40]!r} is not read"
            table.refuse(row, column, f"{words}; {advice.format(column=column)}")


def _check_profits(table: RoleTable, fills: pd.DataFrame) -> None:
    """Raise DataError if a row that opens a position has a profit, because the row may be a
    round-trip trade.
    """
    if "profit" not in table.roles:
        return

    column = table.column("profit")
    profits, bad = parse_figures(table.texts("profit"), table.table.decimal)
    has_profit = bad | (profits.fillna(0.0) != 0)
    signed = fills["shares"].where(fills["side"] == "buy", -fills["shares"])
    keyed = fills.assign(signed=signed, is_sale=fills["side"] == "sell")
    after = keyed.sort_values(["moment"], kind="stable").groupby("code")["signed"].cumsum()
    before = after.reindex(fills.index) - signed
    is_closing = (before * signed < 0) & (before.abs() > _EPSILON)
    role = "side" if "side" in table.roles else ""
    is_told = bool(role) and table.words(role).str.contains(_SAYS_EVENT, regex=True)
    opens = has_profit & ~is_closing & ~is_told
    if opens.any():
        row = int(opens.to_numpy().argmax())
        cell = table.texts("profit").iloc[row][:40]
        table.refuse(row, column, f"{cell!r} is not read; {_TWO_ROWS}")
    _check_gains(table, keyed.assign(profit=profits.fillna(0.0)))


def _check_gains(table: RoleTable, fills: pd.DataFrame) -> None:
    """Raise DataError if the profits for a code without an open position clearly differ from what
    its shares and prices give, because sizes must then be lots or contracts.
    """
    money = fills["signed"] * fills["price"]
    by_code = fills.assign(gain=-money, size=money.abs()).groupby("code")
    sums = by_code[["signed", "profit", "gain", "size"]].sum()
    closed = sums[(sums["signed"].abs() < _EPSILON) & (sums["profit"] != 0)]
    gap = (closed["profit"] - closed["gain"]).abs()
    larger = closed[["profit", "gain"]].abs().max(axis=1)
    is_other = gap > _HALF * larger + _FEES * closed["size"]
    if is_other.any():
        code = str(is_other.idxmax())
        profit, gain = closed.loc[code, ["profit", "gain"]]
        raise DataError(
            f"{table.place}: column {table.column('profit')}: {code[:40]} has {profit:,.6g} in "
            f"total, but the shares and prices give {gain:,.6g}: {OTHER_SIZES}"
        )


def _check_changes(table: RoleTable, values: pd.Series, flows: str) -> None:
    """Raise DataError if the changes in account value match the profits in the rows neither as
    profits for the day nor as profits since the start.
    """
    if "profit" not in table.roles or flows or len(values) != len(table):
        return
    profits, _ = parse_figures(table.texts("profit"), table.table.decimal)
    if profits.isna().any():
        return

    order = table.moments().argsort(kind="stable")
    by_day = pd.Series(profits.iloc[order].to_numpy(), index=values.index)
    changes = values.diff()
    slack = _SLACK * values
    differs = (changes - by_day).abs() > slack
    differs_in_all = (changes - by_day.diff()).abs() > slack
    if by_day.eq(0.0).all() or not (differs.any() and differs_in_all.any()):
        return

    place = int(differs.to_numpy().argmax())
    row = int(order.iloc[place])
    cell = table.texts("profit").iloc[row][:40]
    words = f"{cell} but the value changed by {changes.iloc[place]:,.6g}: a deposit or a withdrawal"
    table.refuse(
        row, table.column("profit"), f"{words}; it is not a return; remove it from the values"
    )


def _check_currency(form: str, table: RoleTable) -> None:
    if form in _OF_VALUES:
        return
    for role in ("currency", *_PRICES):
        if role in table.roles:
            cells = table.texts(role)
            signs = cells if role == "currency" else cells.str.replace(_FIGURE, "", regex=True)
            named = signs[signs != ""].unique()
            if len(named) > 1:
                shown = ", ".join(map(str, named))[:80]
                column = table.column(role)
                raise DataError(
                    f"{table.place}: column {column}: {shown}: write one file per currency"
                )


def _check_sides(table: RoleTable) -> None:
    """Raise DataError if a target is a sell, because the side would change its sign."""
    if "side" in table.roles:
        is_sale = is_kind(table.words("side"), "sell")
        targets = table.roles.get("weight", table.roles.get("position", ()))
        is_zero = (
            bool(is_sale.any()) and len(targets) == 1 and _are_zero(table, is_sale, targets[0])
        )
        if is_zero and not table.keeps_others:
            _refuse_changes(table)
        if is_sale.any() and not is_zero:
            words = (
                "is a sell, but the side of a target is not used; write a short as a negative "
                "number"
            )
            table.refuse(int(is_sale.to_numpy().argmax()), table.column("side"), words)


def _are_zero(table: RoleTable, is_sale: pd.Series, target: str) -> bool:
    """Return whether all sales have the target 0."""
    return bool((table.numbers_in(target, may_lack=True)[is_sale] == 0).all())


def _refuse_changes(table: RoleTable) -> NoReturn:
    """Raise DataError because sales have the target 0, so that a day may list changes only, and not
    the whole portfolio.
    """
    raise DataError(
        f"{table.place}: column {table.column('side')}: sells have the target 0, so a day may list "
        "changes only: give --keep-others to keep holdings that a day does not name; or, if each "
        "day is the whole portfolio, --map side=-"
    )


def _check_acts(form: str, table: RoleTable) -> None:
    """Raise DataError if an unread column says whether rows buy or sell, or whether they open or
    close.
    """
    if form in _TARGETS and "side" in table.no_roles:
        return
    has_side = "side" in table.roles or "is buy" in table.roles or form == "closed"
    if "effect" in table.roles and table.has("effect") and form == "fills":
        words = set(table.words("side").unique()) if "side" in table.roles else set()
        if not words or not words.isdisjoint({"long", "short"}):
            column = table.column("effect")
            cell = table.texts("effect").iloc[0][:40]
            advice = "write whether a row buys or sells in a column side, and drop this one"
            table.refuse(0, column, f"{cell!r} is not read; {advice}")

    read = {column for columns in table.roles.values() for column in columns}
    for column in table.table.header:
        act = (
            "" if column in read or form == "closed" else act_in(column, table.table.cells[column])
        )
        if act and (act.endswith("position") or not has_side):
            raise DataError(
                f"{table.place}: column {column} says {act}, but is not read; if it contains buy "
                f"and sell, give --map side={column!r}, else write buy and sell in a column side"
            )


def act_in(column: str, cells: pd.Series) -> str:
    """Return what the words in a column say about its rows: whether they buy or sell, or whether
    they open or close a position. Return an empty string for other columns. Single letters may be
    names, so they are ignored.
    """
    words = words_of(cells[cells != ""].drop_duplicates().head(_MAX_WORDS + 1))
    said = set(words)
    if not said or len(said) > _MAX_WORDS:
        return ""

    kinds = [kinds_in(pd.Series([word])) for word in said]
    is_word = max(map(len, said)) > 1 or "buy" in kinds_in(words)
    if all(own & {*_ACTS, "long"} for own in kinds) and "sell" in kinds_in(words) and is_word:
        return "whether a row buys or sells"
    if said <= _FLAGS and not _FLAG_NAMES.isdisjoint(
        [near_name(column), *column.lower().split("_")]
    ):
        return "whether a row buys or sells"
    if all(own & _EVENTS for own in kinds) and "close" in kinds_in(words):
        return "whether a row opens or closes a position"
    return ""
