"""Holdings that an account values at an earlier price, because they have no bar on its last day.

A name whose bars have ended (delisting, merger, a renamed code) keeps its last close as its mark
and can't be sold. Its value is then an assumption, not a price.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Annotated

import numpy as np
from msgspec import Meta, UnsetType

from ktdeval.market.rules.own_sessions import first_session
from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.trading.ledger import Ledger
from ktdeval.values.documents.typed_json import Value

MAX_STALE = 0.05
"""Largest share of the last NAV without a bar that a result may have before readers are warned."""


_Share = Annotated[int, Meta(ge=0)] | Annotated[float, Meta(ge=0)]


class StaleHoldings(Value, frozen=True):
    """Holdings at an account's last close that had no bar on its last day, although their exchange
    was open.
    """

    holdings: Annotated[int, Meta(ge=1)]  #: number of such holdings
    #: oldest of their last bars
    since: Annotated[str, Meta(pattern=r"^\d{4}-\d{2}-\d{2}$")]
    #: their value as a fraction of the last NAV, shorts counted as positive; null if that NAV is not
    #: positive
    share: _Share | None

    @property
    def is_large(self) -> bool:
        """Return whether readers must know before any figure."""
        return self.share is None or self.share > MAX_STALE

    @property
    def words(self) -> str:
        """Description for readers, such as `35.2 % of the last NAV has had no bar since 2024-03-08
        (1 holding, at its last price)`.
        """
        share = "an unknown share" if self.share is None else f"{100 * self.share:.1f} %"
        names = "1 holding, at its last price"
        if self.holdings > 1:
            names = f"{self.holdings:,} holdings, at their last prices"
        return f"{share} of the last NAV has had no bar since {self.since} ({names})"


def stale_holdings(ledger: Ledger, market: MarketSnapshot) -> StaleHoldings | None:
    """Return the holdings at the last close of a ledger whose exchange had a session after their
    last bar; None if there are none. Bars after the ledger's last day are not read.
    """
    last = ledger.steps[-1]
    end = market.day_index(last.filled_on)
    value = 0
    bars = []
    for held in last.positions:
        column = market.asset_index[held.code]
        known = np.flatnonzero(np.isfinite(market.close[: end + 1, column]))
        row = int(known[-1])
        if first_session(market.days[row + 1 : end + 1], market.calendars[column]) is None:
            continue

        bars.append(row)
        value += abs(held.value_minor)

    if not bars:
        return None

    share = value / last.nav_minor if last.nav_minor > 0 else None
    return StaleHoldings(holdings=len(bars), since=str(market.days[min(bars)]), share=share)


def most_stale(parts: Iterable[StaleHoldings | UnsetType]) -> StaleHoldings | None:
    """Return the largest of several episodes' holdings without a bar; None if there are none."""
    found = [part for part in parts if part]
    return max(found, key=_order_by_share, default=None)


def _order_by_share(part: StaleHoldings) -> float:
    return math.inf if part.share is None else part.share
