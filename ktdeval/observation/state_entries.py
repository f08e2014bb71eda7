"""Entries of a state: an account, a position, an asset, a bar, a document, …

Each is one row or object of the state with its columns as typed attributes. `cells` has all of its
columns, also those without an attribute. KTD-Fin writes amounts of money with their unit
(`close_cny`), tasks on any market without it (`close`): the attributes read both.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ktdeval.observation.state_rows import ASSET

Cells = Mapping[str, Any]  # one row of a table, by column


def first_number(cells: Cells, *columns: str) -> float | None:
    """Return the first finite number in some columns; None if no column has one."""
    for column in columns:
        value = cells.get(column)
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        if abs(value) < sys.float_info.max:
            return float(value)

    return None


class _Number:
    """Attribute of an entry: the first finite number in some columns; None if it isn't shown."""

    def __init__(self, *columns: str) -> None:
        self._columns = columns

    def __get__(self, entry: Entry, _: type) -> float | None:
        return first_number(entry.cells, *self._columns)


class _Text:
    """Attribute of an entry: a cell as text; empty if the cell is missing."""

    def __init__(self, column: str) -> None:
        self._column = column

    def __get__(self, entry: Entry, _: type) -> str:
        value = entry.cells.get(self._column)
        return "" if value is None else str(value)


@dataclass(frozen=True, slots=True)
class Entry:
    """One row or object of a state."""

    cells: Cells  #: all of its columns


class ObservedAccount(Entry):
    """Account before the decision, in units of its currency."""

    cash = _Number("cash", "cash_cny")
    nav = _Number("nav", "nav_cny")
    cash_weight = _Number("cash_weight")  #: share of the NAV


class ObservedLimits(Entry):
    """Limits of the task. An attribute is None if the task doesn't state it."""

    max_weight = _Number("max_weight")  #: of one asset, as a share of the NAV

    @property
    def max_positions(self) -> int | None:
        """Positions that an account may have."""
        most = first_number(self.cells, "max_positions")
        return None if most is None else int(most)

    @property
    def min_reason_chars(self) -> int:
        """Shortest reason, in characters; 0 if the task doesn't state it."""
        return int(first_number(self.cells, "min_reason_chars") or 0)

    @property
    def hold(self) -> str | None:
        """Meaning of HOLD (`ktdeval.harness.HoldRule`) if the task asks for BUY, SELL or HOLD of
        each asset shown; None if it asks for orders.
        """
        hold = self.cells.get("hold")
        return None if hold is None else str(hold)

    @property
    def asks_decisions(self) -> bool:
        """True if the task asks for BUY, SELL or HOLD of each asset shown, not for orders."""
        return self.hold is not None


class ObservedPosition(Entry):
    """Holding or short of one asset. A number is None if it isn't shown."""

    label = _Text(ASSET)
    shares = _Number("shares")  #: below 0: a short
    locked_shares = _Number("locked_shares")  #: of these, bought today and not sellable today
    value = _Number("value", "value_cny")  #: at the last close
    weight = _Number("weight")  #: share of the NAV
    status = _Text("status")

    @property
    def is_sellable(self) -> bool:
        """True if some of the position is sellable at the next open (not locked). An account at
        book shows no shares: orders for the next day are never locked on it.
        """
        return self.shares is None or self.shares > (self.locked_shares or 0)


class ObservedAsset(Entry):
    """One asset with all figures shown of it, as a candidate and as a position."""

    label = _Text(ASSET)
    kind = _Text("kind")  #: such as `stock` or `crypto`; empty if it isn't shown
    status = _Text("status")  #: such as `trading`; empty if it isn't shown
    #: close of the day, or the last one before it
    price = _Number("close", "close_cny", "last_close", "last_close_cny")

    def figure(self, name: str) -> float | None:
        """Return the finite number in a column; None if it has no finite number."""
        return first_number(self.cells, name)


class ObservedBar(Entry):
    """One day's trading in an asset. A price or volume is None if it isn't shown."""

    label = _Text(ASSET)
    day = _Text("day")
    open = _Number("open")
    high = _Number("high")
    low = _Number("low")
    close = _Number("close")
    volume = _Number("volume")


class ObservedDocument(Entry):
    """News or a report, with what the mask hides taken out of it."""

    day = _Text("day")
    source = _Text("source")
    kind = _Text("kind")
    sentiment = _Text("sentiment")  #: as its source words it; empty if not given
    title = _Text("title")
    text = _Text("text")

    @property
    def labels(self) -> tuple[str, ...]:
        """Assets that it is about; empty: the whole market."""
        return tuple(self.cells.get("stock_ids") or ())


class ObservedOrder(Entry):
    """Order of the previous step, and its outcome."""

    side = _Text("side")
    status = _Text("status")  #: how it ended; empty if it isn't shown

    @property
    def label(self) -> str | None:
        """Label of the asset; None if what was submitted was not an asset."""
        return self.cells.get(ASSET)

    @property
    def rule(self) -> str | None:
        """Rule that a rejected order broke."""
        return self.cells.get("rule")

    @property
    def filled_shares(self) -> float:
        """Shares that were filled; 0 if it isn't shown."""
        return first_number(self.cells, "filled_shares") or 0.0


class ObservedOutcome(Entry):
    """Price change of one asset after a warm-up day."""

    label = _Text(ASSET)
    next_day = _Text("next_day")
    change_pct = _Number("change_pct")  #: change of the price until `next_day`
    action = _Text("label")  #: BUY, SELL or HOLD: the decision that fits the change
