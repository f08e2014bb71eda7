"""Dated duties on fills: charges by the state, clearing houses and regulators in addition to the
broker's commission. They are stored in `fees.csv`, where each row states its source.

Each row also states its reliability: `sourced`, `second_hand` (the figure or its first day comes
from a page that does not cite a document), or `assumed` (the dates are unverified or the fee is not
modelled; the source says which).

Fees charged by exchanges and by the Chinese regulator are not included: brokers collect them as
part of their commission, whose cap (3 per mille) includes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from ktdeval.errors import DataError
from ktdeval.market.snapshots.snapshot import Board, DayArray
from ktdeval.market.venues.venue import Venue, built_in_venues
from ktdeval.values.disk.files import csv_rows
from ktdeval.values.documents.strict_json import JsonValue
from ktdeval.values.hashes import content_hash

DutyKind = Literal["stamp_duty", "transfer_fee", "sec_fee", "finra_fee"]
DutySide = Literal["buy", "sell", "both"]
DutyStatus = Literal["sourced", "second_hand", "assumed"]

_TABLE = Path(__file__).with_name("fees.csv")
_FIRST_DAY = "0001-01-01"
_NO_END = "9999-12-31"


@dataclass(frozen=True, slots=True)
class DutyRow:
    """One duty, with its first and last day of validity."""

    board: Board | None  #: None: all boards, or a venue without boards
    kind: DutyKind
    side: DutySide
    first: np.datetime64
    last: np.datetime64
    bps: float  #: rate on the notional, in basis points
    per_unit: float  #: amount per share, in currency units
    most: float | None  #: cap on an order's per-share amount
    status: DutyStatus
    source: str

    def is_due(self, selling: bool, board: Board | None, day: np.datetime64) -> bool:
        """Return whether a fill on a board and day incurs this duty."""
        if not self.first <= day <= self.last or self.board not in (None, board):
            return False
        # Only sellers have paid stamp duty since 2008-09-19 (Cai Shui Ming Dian [2008] No. 2)
        if selling:
            return self.side in ("both", "sell")
        return self.side in ("both", "buy")

    def facts(self) -> dict[str, JsonValue]:
        """Return the row as in the file; an open-ended day or bound is null."""
        return {
            "board": self.board and str(self.board),
            "kind": self.kind,
            "side": self.side,
            "first": _bound_or_none(self.first),
            "last": _bound_or_none(self.last),
            "bps": self.bps,
            "per_unit": self.per_unit,
            "most": self.most,
            "status": self.status,
            "source": self.source,
        }


@cache
def duty_rows() -> Mapping[str, tuple[DutyRow, ...]]:
    """Return each venue's rows, in file order."""
    rows: dict[str, list[DutyRow]] = {}
    for row in csv_rows(_TABLE):
        board = None
        if row["board"]:
            board = Board(row["board"])

        most = None
        if row["most"]:
            most = float(row["most"])

        duty = DutyRow(
            board=board,
            kind=_one_of(row["kind"], DutyKind),
            side=_one_of(row["side"], DutySide),
            first=np.datetime64(row["first"] or _FIRST_DAY, "D"),
            last=np.datetime64(row["last"] or _NO_END, "D"),
            bps=float(row["bps"]),
            per_unit=float(row["per_unit"]),
            most=most,
            status=_one_of(row["status"], DutyStatus),
            source=row["source"],
        )
        rows.setdefault(row["venue"], []).append(duty)

    return {venue: tuple(own) for venue, own in rows.items()}


def is_dated(venue: Venue) -> bool:
    """Return whether a venue's duties vary by date. They do if the venue is built in, has its
    built-in costs, and is in the table. Costs specified by a task or package are the same on all
    days.
    """
    return venue.name in duty_rows() and venue.fees == built_in_venues()[venue.name].fees


def duties_due(
    venue: Venue, board: Board | None, selling: bool, day: np.datetime64
) -> list[DutyRow]:
    """Return the duties that a fill incurs on a day at a venue with dated duties."""
    return [row for row in duty_rows()[venue.name] if row.is_due(selling, board, day)]


def change_days(venues: Sequence[Venue]) -> DayArray:
    """Return the days on which a duty at any of these venues begins or changes, ascending."""
    days: set[np.datetime64] = set()
    for venue in venues:
        days |= {row.first for row in duty_rows()[venue.name]}

    return np.array(sorted(days), dtype="datetime64[D]")


@cache
def duties_id() -> str:
    """Return the SHA-256 of all rates and days, without their sources. It is part of the config
    hash of tasks that use these costs.
    """
    figures: list[JsonValue] = []
    for venue, rows in duty_rows().items():
        for row in rows:
            facts = row.facts()
            del facts["status"], facts["source"]
            figures.append({"venue": venue, **facts})

    return content_hash(figures)


def _bound_or_none(day: np.datetime64) -> str | None:
    """Return an ISO day; None for the placeholder of an open end."""
    text = str(day)
    if text in (_FIRST_DAY, _NO_END):
        return None
    return text


def _one_of(text: str, kinds: Any) -> Any:
    """Return a value from the table. Raises DataError if the Literal does not allow it."""
    if text not in get_args(kinds):
        raise DataError(
            f"{_TABLE.name}: expected one of {', '.join(get_args(kinds))}, found {text!r}"
        )

    return text
