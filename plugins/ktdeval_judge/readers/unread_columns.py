"""Columns that change what a row of a plain table means, and that are not read: such a file is
refused by their name, since without them its figures would be of something else.

A column whose cells say nothing (empty, 0, or 1 of a multiplier) changes nothing. Rows of an order
that was canceled or rejected are left out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ktdeval_judge.readers.sample import near_name, refuse

_TWO_ROWS = "a row is a whole trade then: write its purchase and its sale as rows of their own"
_NO_FLOW = "it is no return: take it out of the values, or give the returns"
_PLAIN_SIZE = "write shares as they are held, and drop the column"
_MEANINGS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "exit": (
        (
            "exit price", "avg exit price", "average exit price", "exit rate", "sell price",
            "exit time", "exit date", "exit day", "exit timestamp", "exit datetime",
            "close rate", "close date", "close time", "closed at", "sell date", "sell time",
        ),
        _TWO_ROWS,
    ),
    "profit": (
        (
            "pnl", "p&l", "p/l", "profit", "profit loss", "net profit", "net pnl", "net p&l",
            "gross pnl", "realized pnl", "realised pnl", "realized profit", "closed pnl",
        ),
        f"{_TWO_ROWS}; drop the column if each row is one fill",
    ),
    "flow": (
        (
            "cash flow", "net cash flow", "net flow", "flow", "flows", "external flow",
            "deposit", "deposits", "net deposit", "net deposits", "withdrawal", "withdrawals",
            "contribution", "contributions", "transfer", "transfers", "subscription", "redemption",
        ),
        _NO_FLOW,
    ),
    "effect": (
        ("position effect", "offset", "open close", "open/close", "position side", "pos side"),
        "write whether a row buys or sells in a column side, and drop this one",
    ),
    "multiplier": (
        ("multiplier", "contract multiplier", "contract size", "leverage"),
        _PLAIN_SIZE,
    ),
    "limit": (
        ("limit price", "stop price", "trigger price", "stop loss", "take profit"),
        "orders are executed at the price of the day: give those that were filled, as trades",
    ),
    "contract": (
        ("strike", "strike price", "expiry", "expiration", "option type", "put/call", "put call"),
        "keep the rows of shares, and drop the column",
    ),
    "currency": (("currency", "ccy"), "write one file a currency"),
    "status": (("status", "order status", "state"), "keep the rows of fills, and drop the column"),
}  # fmt: skip
"""Kind -> names, and what to do."""
_DONE = frozenset({"filled", "executed", "complete", "completed", "done", "traded"})
_NOT_DONE = frozenset(
    {"canceled", "cancelled", "rejected", "expired", "invalid", "failed", "unfilled", "error"}
)
_BUYS = frozenset({"buy", "b", "long", "bot", "bought", "cover", "买入", "证券买入", "买"})
_SELLS = frozenset({"sell", "s", "short", "sld", "sold", "卖出", "证券卖出", "卖"})
_OPENS = frozenset({"open", "opened", "opening", "entry", "enter", "开仓", "开"})
_CLOSES = frozenset({"close", "closed", "closing", "exit", "leave", "平仓", "平", "平今", "平昨"})
_FLAGS = frozenset({"true", "false", "0", "1", "yes", "no", "t", "f", "y", "n"})
_ACT_NAMES = frozenset({"buy", "sell", "long", "short", "buyer", "seller", "isbuy", "issell"})
MAX_WORDS = 12  #: of a column, from which on it is none of sides
_SLACK = 1e-3  #: share of a value up to which its change is the profit of a file


def unread_names() -> dict[str, str]:
    """Return each spelling of a column that is looked at, and its field, `kind: name`."""
    spelled: dict[str, str] = {}
    for kind, (names, _) in _MEANINGS.items():
        for name in names:
            for mark in (" ", "_", "-", ""):
                spelled[name.replace(" ", mark)] = f"{kind}: {name.replace(' ', '_')}"

    return spelled


def flow_names() -> frozenset[str]:
    """Return the near names of columns of deposits and withdrawals."""
    return frozenset(map(near_name, _MEANINGS["flow"][0]))


def is_unfilled(cells: Mapping[str, Any]) -> bool:
    """Whether a row is that of an order which was canceled or rejected."""
    for name in _MEANINGS["status"][0]:
        if str(cells.get(f"status: {name.replace(' ', '_')}", "")).strip().lower() in _NOT_DONE:
            return True

    return False


def act_in(column: str, words: Collection[str]) -> str:
    """Return what a column says of its rows by its words: that they buy or sell, open or close; empty
    where it says neither. Words of one letter alone may be a name.
    """
    said = set(words) - {""}
    is_word = bool(said & _BUYS) or max(map(len, said), default=0) > 1
    if said & _SELLS and said <= _BUYS | _SELLS and is_word:
        return "whether a row buys or sells"
    if said in ({"1", "-1"}, {"1.0", "-1.0"}):
        return "whether a row buys or sells"
    if said <= _FLAGS and said and not _ACT_NAMES.isdisjoint(column.lower().split("_")):
        return "whether a row buys or sells"
    if said & _CLOSES and said <= _OPENS | _CLOSES:
        return "whether a row opens or closes a position"
    return ""


@dataclass(frozen=True)
class Unread:
    """The rows of a file, with the cells of such columns among them."""

    path: Path
    cells: Sequence[Mapping[str, Any]]
    lines: Sequence[int]
    fields: Collection[str]  #: that any row has
    written: Mapping[str, str]  #: field -> name of its column in the file, where it is known

    def check(self, form: str) -> None:
        """Raise DataError where a column says something that is not read."""
        for kind in ("exit", "flow", "effect", "multiplier", "contract"):
            self._check_silent(kind, 1.0 if kind == "multiplier" else 0.0)
        if form == "value":
            self._check_profit()
        else:
            self._check_silent("profit", 0.0)

        if form in ("cash", "shares"):
            self._check_silent("limit", 0.0)
        if form in ("cash", "shares", "trade"):
            self._check_status()
        else:
            self._check_sides()
        self._check_currency()

    def _check_silent(self, kind: str, nothing: float) -> None:
        for number, field, text in self._find_cells(kind):
            if _number(text) != nothing:
                self._refuse(number, field, f"{text[:40]!r} is not read")

    def _check_status(self) -> None:
        for number, field, text in self._find_cells("status"):
            if text.lower() not in _DONE:
                self._refuse(number, field, f"{text[:40]!r} is neither filled nor canceled")

    def _check_currency(self) -> None:
        found = list(self._find_cells("currency"))
        if len({text for _, _, text in found}) > 1:
            number, field, text = found[0]
            self._refuse(number, field, f"{text[:40]!r} is one of several")

    def _check_sides(self) -> None:
        """Raise DataError where a target has a side, which would change its sign."""
        for number, row in enumerate(self.cells):
            if row.get("side") == "sell":
                words = "column side: a sell, and the side of a target is not read; write a short"
                raise refuse(self.path, self.lines[number], f"{words} as a number below 0")

    def _check_profit(self) -> None:
        """Raise DataError where a value changes by more or less than the profit of its row, of the
        day or since the first.
        """
        import pandas as pd  # noqa: PLC0415 - readers are listed without it

        found = list(self._find_cells("profit"))
        if len(found) < len(self.cells):
            return

        frame = pd.DataFrame({"day": [row["day"] for row in self.cells]})
        frame["value"] = [row["value"] for row in self.cells]
        frame["profit"] = [_number(text) for _, _, text in found]
        frame = frame.sort_values("day", kind="stable")
        changes = frame["value"].diff()
        slack = _SLACK * frame["value"]
        differs = (changes - frame["profit"]).abs() > slack
        differs_in_all = (changes - frame["profit"].diff()).abs() > slack
        if differs.any() and differs_in_all.any():
            number = frame[differs].index.tolist()[0]
            _, field, text = found[number]
            change = f"and the value changed by {changes.loc[number]:,.6g}"
            self._refuse(number, field, f"{text[:40]} {change}: a deposit or a withdrawal")

    def _find_cells(self, kind: str) -> Iterator[tuple[int, str, str]]:
        """Yield row, field and text of each cell of a kind that is not empty."""
        for field in sorted(self.fields):
            if not field.startswith(f"{kind}: "):
                continue
            for number, row in enumerate(self.cells):
                text = str(row.get(field, "")).strip()
                if text.lower() not in ("", "nan", "none", "-"):
                    yield number, field, text

    def _refuse(self, number: int, field: str, words: str) -> None:
        kind, _, name = field.partition(": ")
        column = self.written.get(field, name)
        advice = _MEANINGS[kind][1]
        raise refuse(self.path, self.lines[number], f"column {column}: {words}; {advice}")


def _number(text: str) -> float:
    try:
        return float(text.replace(",", "").strip("$€£¥%() "))
    except ValueError:
        return float("nan")
