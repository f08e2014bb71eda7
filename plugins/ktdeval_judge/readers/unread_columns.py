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
    "currency": (("currency", "ccy"), "write one file a currency"),
    "status": (("status", "order status", "state"), "keep the rows of fills, and drop the column"),
}  # fmt: skip
"""Kind -> names, and what to do."""
_DONE = frozenset({"filled", "executed", "complete", "completed", "done", "traded"})
_NOT_DONE = frozenset(
    {"canceled", "cancelled", "rejected", "expired", "invalid", "failed", "unfilled", "error"}
)
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


@dataclass(frozen=True)
class Unread:
    """The rows of a file, with the cells of such columns among them."""

    path: Path
    cells: Sequence[Mapping[str, Any]]
    lines: Sequence[int]
    fields: Collection[str]  #: that any row has
    written: Mapping[str, str]  #: field -> name of its column in the file, where it is known

    def filled(self) -> list[bool]:
        """Return which rows are not those of an order without a fill. Raises DataError: a status
        says neither.
        """
        is_filled = [True] * len(self.cells)
        for number, field, text in self._found("status"):
            word = text.lower()
            if word in _NOT_DONE:
                is_filled[number] = False
            elif word not in _DONE:
                self._refuse(number, field, f"{text[:40]!r} is neither filled nor canceled")

        return is_filled

    def check(self, form: str) -> None:
        """Raise DataError where a column says something that is not read."""
        for kind in ("exit", "profit", "flow", "effect", "multiplier"):
            if kind == "profit" and form == "value":
                self._check_profit()
                continue
            for number, field, text in self._found(kind):
                is_said = _number(text) != (1.0 if kind == "multiplier" else 0.0)
                if is_said:
                    self._refuse(number, field, f"{text[:40]!r} is not read")

        currencies = {text for _, _, text in self._found("currency")}
        for number, field, text in self._found("currency"):
            if len(currencies) > 1:
                self._refuse(number, field, f"{text[:40]!r} is one of several")

        if form in ("weight", "holding", "value"):
            for number, row in enumerate(self.cells):
                if row.get("side") == "sell":
                    words = (
                        "column side: a sell, and the side of a target is not read; write a short"
                    )
                    raise refuse(self.path, self.lines[number], f"{words} as a number below 0")

    def _check_profit(self) -> None:
        """Raise DataError where a value changes by more or less than the profit of its row, of the
        day or since the first.
        """
        import pandas as pd  # noqa: PLC0415 - readers are listed without it

        found = list(self._found("profit"))
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

    def _found(self, kind: str) -> Iterator[tuple[int, str, str]]:
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
