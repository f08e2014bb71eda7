"""Entries of a state: an account, a position, an asset, a bar, a document, …

Each entry is one row or object of the state, with its columns as typed attributes. `cells` contains
all its columns, including those without an attribute. KTD-Fin includes the unit in the names of
money amounts (`close_cny`), while tasks on any market omit it (`close`); the attributes read both.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ktdeval.observation.state_rows import ASSET

Cells = Mapping[str, Any]  # one row of a table, by column


def first_number(cells: Cells, *columns: str) -> float | None:
    """Return the first finite number in the given columns; None if no column has one."""
    for column in columns:
        value = cells.get(column)
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        if abs(value) < sys.float_info.max:
            return float(value)

    return None


class _Number:
    """Entry attribute: the first finite number in the given columns; None if it isn't shown."""

    def __init__(self, *columns: str) -> None:
        self._columns = columns

    def __get__(self, entry: StateEntry, _: type) -> float | None:
        return first_number(entry.cells, *self._columns)


class _Text:
    """Entry attribute: a cell as a string; empty if the cell is missing."""

    def __init__(self, column: str) -> None:
        self._column = column

    def __get__(self, entry: StateEntry, _: type) -> str:
        value = entry.cells.get(self._column)
        return "" if value is None else str(value)


@dataclass(frozen=True, slots=True)
class StateEntry:
    """One row or object of a state."""

    cells: Cells  #: all columns of the entry


class ObservedAccount(StateEntry):
    """The account before the decision, in units of its currency."""

    cash = _Number("cash", "cash_cny")
    nav = _Number("nav", "nav_cny")
    cash_weight = _Number("cash_weight")  #: share of the NAV


class ObservedLimits(StateEntry):
    """The task's limits. An attribute is None if the task doesn't state the limit."""

    max_weight = _Number("max_weight")  #: maximum weight of one asset, as a share of the NAV

    @property
    def max_positions(self) -> int | None:
        """Maximum number of positions in the account."""
        most = first_number(self.cells, "max_positions")
        return None if most is None else int(most)

    @property
    def min_reason_chars(self) -> int:
        """Minimum length of a reason, in characters; 0 if the task doesn't specify it."""
        return int(first_number(self.cells, "min_reason_chars") or 0)

    @property
    def hold(self) -> str | None:
        """Meaning of HOLD (`ktdeval.harness.HoldRule`) if the task asks for BUY, SELL or HOLD on
        each asset shown; None if it asks for orders.
        """
        hold = self.cells.get("hold")
        return None if hold is None else str(hold)

    @property
    def asks_decisions(self) -> bool:
        """True if the task asks for BUY, SELL or HOLD on each asset shown, instead of orders."""
        return self.hold is not None


class ObservedPosition(StateEntry):
    """Long or short position in one asset. A number is None if it isn't shown."""

    label = _Text(ASSET)
    shares = _Number("shares")  #: number of shares; negative for a short position
    #: number of shares bought today, which can't be sold today
    locked_shares = _Number("locked_shares")
    value = _Number("value", "value_cny")  #: value at the last close
    weight = _Number("weight")  #: share of the NAV
    status = _Text("status")

    @property
    def is_sellable(self) -> bool:
        """True if part of the position can be sold at the next open because it is not locked. An
        account at book value shows no shares, and its next-day orders are never locked.
        """
        return self.shares is None or self.shares > (self.locked_shares or 0)


class ObservedAsset(StateEntry):
    """An asset with all figures shown for it, both as a candidate and as a position."""

    label = _Text(ASSET)
    kind = _Text("kind")  #: kind of asset, such as `stock` or `crypto`; empty if it isn't shown
    status = _Text("status")  #: trading status, such as `trading`; empty if it isn't shown
    #: close of the day, or the last close before that
    price = _Number("close", "close_cny", "last_close", "last_close_cny")

    def figure(self, name: str) -> float | None:
        """Return the finite number in a column; None if the column has no finite number."""
        return first_number(self.cells, name)


class ObservedBar(StateEntry):
    """An asset's bar for one day. A price or volume is None if it isn't shown."""

    label = _Text(ASSET)
    day = _Text("day")
    open = _Number("open")
    high = _Number("high")
    low = _Number("low")
    close = _Number("close")
    volume = _Number("volume")


class ObservedDocument(StateEntry):
    """A news item or report, with everything removed that the mask hides."""

    day = _Text("day")
    source = _Text("source")
    kind = _Text("kind")
    sentiment = _Text("sentiment")  #: sentiment in the source's own terms; empty if not given
    title = _Text("title")
    text = _Text("text")

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of the assets that the document is about; empty: the whole market."""
        return tuple(self.cells.get("stock_ids") or ())


class ObservedOrder(StateEntry):
    """An order from the previous step, with its outcome."""

    side = _Text("side")
    status = _Text("status")  #: final status; empty if it isn't shown

    @property
    def label(self) -> str | None:
        """Label of the asset; None if the order did not name a known asset."""
        return self.cells.get(ASSET)

    @property
    def rule(self) -> str | None:
        """Rule that the order broke, if it was rejected."""
        return self.cells.get("rule")

    @property
    def filled_shares(self) -> float:
        """Number of shares filled; 0 if the number isn't shown."""
        return first_number(self.cells, "filled_shares") or 0.0


class ObservedOutcome(StateEntry):
    """Price change of one asset after a warm-up day."""

    label = _Text(ASSET)
    next_day = _Text("next_day")
    change_pct = _Number("change_pct")  #: price change up to `next_day`, in per cent
    action = _Text("label")  #: BUY, SELL or HOLD: the decision that fits the price change
