"""Entries of a state: an account, a position, an asset, a bar, a document, …

Each is one row or object of the state as a typed value. `cells` has all of its columns, also those
without a field. KTD-Fin writes amounts of money with their unit (`close_cny`), tasks on any market
without it (`close`): the fields read both.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ktdeval.observation.state_rows import ASSET

Cells = Mapping[str, Any]  # one row of a table, by column


def first_number(cells: Cells, *columns: str) -> float | None:
    """Return the first finite number in some columns; None if there is none."""
    for column in columns:
        value = cells.get(column)
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        if abs(value) < sys.float_info.max:
            return float(value)

    return None


def _cell_text(cells: Cells, column: str) -> str:
    """Return a cell as text; empty if there is none."""
    value = cells.get(column)
    return "" if value is None else str(value)


@dataclass(frozen=True, slots=True)
class ObservedAccount:
    """Account before the decision, in units of its currency. A field is None if it isn't shown."""

    cash: float | None
    nav: float | None
    cash_weight: float | None  #: share of the NAV
    cells: Cells

    @classmethod
    def of(cls, cells: Cells) -> ObservedAccount:
        """Read the object `account`."""
        return cls(
            cash=first_number(cells, "cash", "cash_cny"),
            nav=first_number(cells, "nav", "nav_cny"),
            cash_weight=first_number(cells, "cash_weight"),
            cells=cells,
        )


@dataclass(frozen=True, slots=True)
class ObservedLimits:
    """Limits of the task. A field is None if the task doesn't state it."""

    max_positions: int | None
    max_weight: float | None  #: of one asset, as a share of the NAV
    min_reason_chars: int  #: 0 if the task doesn't state it
    #: what HOLD means (`ktdeval.harness.HoldRule`) if the task asks for BUY, SELL or HOLD of each
    #: asset shown; None if it asks for orders
    hold: str | None
    cells: Cells

    @property
    def asks_decisions(self) -> bool:
        """Whether the task asks for BUY, SELL or HOLD of each asset shown, not for orders."""
        return self.hold is not None

    @classmethod
    def of(cls, cells: Cells) -> ObservedLimits:
        """Read the object `constraints`."""
        most = first_number(cells, "max_positions")
        hold = cells.get("hold")
        return cls(
            max_positions=None if most is None else int(most),
            max_weight=first_number(cells, "max_weight"),
            min_reason_chars=int(first_number(cells, "min_reason_chars") or 0),
            hold=None if hold is None else str(hold),
            cells=cells,
        )


@dataclass(frozen=True, slots=True)
class ObservedPosition:
    """Holding or short of one asset. A number is None if it isn't shown."""

    label: str
    shares: float | None  #: below 0: a short
    locked_shares: float | None  #: of these, bought today and not for sale today
    value: float | None  #: at the last close
    weight: float | None  #: share of the NAV
    status: str
    cells: Cells

    @property
    def is_sellable(self) -> bool:
        """Whether some of it can be sold at the next open, by its locks. An account at book shows
        none: what is ordered for the next day is never locked on it.
        """
        return self.shares is None or self.shares > (self.locked_shares or 0)

    @classmethod
    def of(cls, cells: Cells) -> ObservedPosition:
        """Read a row of the table `positions`."""
        return cls(
            label=_cell_text(cells, ASSET),
            shares=first_number(cells, "shares"),
            locked_shares=first_number(cells, "locked_shares"),
            value=first_number(cells, "value", "value_cny"),
            weight=first_number(cells, "weight"),
            status=_cell_text(cells, "status"),
            cells=cells,
        )


@dataclass(frozen=True, slots=True)
class ObservedAsset:
    """One asset with all figures shown of it, as a candidate and as a position."""

    label: str
    kind: str  #: such as `stock` or `crypto`; empty if it isn't shown
    status: str  #: such as `trading`; empty if it isn't shown
    price: float | None  #: close of the day, or the last one before it
    cells: Cells

    def figure(self, name: str) -> float | None:
        """Return the finite number in a column; None if there is none."""
        return first_number(self.cells, name)

    @classmethod
    def of(cls, cells: Cells) -> ObservedAsset:
        """Read a row of the table `candidates`, of `positions`, or one with the columns of both."""
        return cls(
            label=_cell_text(cells, ASSET),
            kind=_cell_text(cells, "kind"),
            status=_cell_text(cells, "status"),
            price=first_number(cells, "close", "close_cny", "last_close", "last_close_cny"),
            cells=cells,
        )


@dataclass(frozen=True, slots=True)
class ObservedBar:
    """One day's trading in an asset. A price or volume is None if it isn't shown."""

    label: str
    day: str
    open: float | None
    high: float | None
    low: float | None
    close: float | None
    volume: float | None
    cells: Cells

    @classmethod
    def of(cls, cells: Cells) -> ObservedBar:
        """Read a row of the table `history`."""
        return cls(
            label=str(cells.get(ASSET)),
            day=str(cells.get("day")),
            open=first_number(cells, "open"),
            high=first_number(cells, "high"),
            low=first_number(cells, "low"),
            close=first_number(cells, "close"),
            volume=first_number(cells, "volume"),
            cells=cells,
        )


@dataclass(frozen=True, slots=True)
class ObservedDocument:
    """News or a report, with what the mask hides taken out of it."""

    day: str
    source: str
    kind: str
    labels: tuple[str, ...]  #: of the assets that it is about; none: of the whole market
    sentiment: str  #: in the words of its source; empty if it gives none
    title: str
    text: str
    cells: Cells

    @classmethod
    def of(cls, cells: Cells) -> ObservedDocument:
        """Read a row of the table `news`."""
        return cls(
            day=_cell_text(cells, "day"),
            source=_cell_text(cells, "source"),
            kind=_cell_text(cells, "kind"),
            labels=tuple(cells.get("stock_ids") or ()),
            sentiment=_cell_text(cells, "sentiment"),
            title=_cell_text(cells, "title"),
            text=_cell_text(cells, "text"),
            cells=cells,
        )


@dataclass(frozen=True, slots=True)
class ObservedOrder:
    """Order of the step before, and what came of it."""

    label: str | None  #: None if what was submitted was not an asset
    side: str
    status: str  #: how it ended; empty if it isn't shown
    rule: str | None  #: that a rejected order broke
    filled_shares: float
    cells: Cells

    @classmethod
    def of(cls, cells: Cells) -> ObservedOrder:
        """Read a row of the table `orders` of the last step."""
        return cls(
            label=cells.get(ASSET),
            side=_cell_text(cells, "side"),
            status=_cell_text(cells, "status"),
            rule=cells.get("rule"),
            filled_shares=first_number(cells, "filled_shares") or 0.0,
            cells=cells,
        )


@dataclass(frozen=True, slots=True)
class ObservedOutcome:
    """What came after a day of a warm-up, for one asset."""

    label: str
    next_day: str
    change_pct: float | None  #: of the price until then
    action: str  #: BUY, SELL or HOLD: what the change called for
    cells: Cells

    @classmethod
    def of(cls, cells: Cells) -> ObservedOutcome:
        """Read a row of the table `outcomes`."""
        return cls(
            label=_cell_text(cells, ASSET),
            next_day=_cell_text(cells, "next_day"),
            change_pct=first_number(cells, "change_pct"),
            action=_cell_text(cells, "label"),
            cells=cells,
        )
