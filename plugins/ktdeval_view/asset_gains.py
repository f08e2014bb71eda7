"""Gain of each asset on each day of an episode, from its ledger alone.

An account holds cash and positions, so the change of its NAV on a day is a sum over assets, in whole
minor units:

    gain  =  value at the close - value at the previous close
             - purchases + sales - costs - interest + cash from splits and dividends

The gains of all assets and days, over the initial cash, add up to the total return: a gain over the
initial cash is an asset's *contribution* to it. The part of a day's change that no asset explains is
`unexplained`. It is 0 in every episode that ktdeval has executed.

Example, worked by hand: 1,000.00 of cash. On day 0, 10 shares of A are bought at 20.00 for a cost of
1.00, and close at 21.00: A gains 210.00 - 200.00 - 1.00 = 9.00. On day 1, 4 shares of A are sold at
23.00 for a cost of 2.00, and 6 close at 22.00: A gains 132.00 - 210.00 + 92.00 - 2.00 = 12.00. The
NAV is 1,021.00: A contributes 2.10 % of 2.10 %.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ktdeval.trading import ChargeRecord, CorporateActionRecord, Ledger, OrderRecord, StepRecord

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class AssetEvent:
    """Change of a position, or a cost of it. Money is in minor units."""

    code: str
    shares: int  #: change of the position, negative if sold; 0 for interest
    received_minor: int  #: cash received before costs; negative if paid
    costs_minor: int  #: costs of a fill, or interest
    is_fill: bool  #: bought or sold, in contrast to interest, splits and dividends

    @property
    def cash_minor(self) -> int:
        """Change of the cash after costs."""
        return self.received_minor - self.costs_minor


def asset_events(step: StepRecord) -> Iterator[AssetEvent]:
    """Yield the events of a step in the order in which the executor books them: interest, splits and
    dividends, margin calls, sells, buys.
    """
    calls = [charge for charge in step.charges if charge.kind == "margin_call"]
    interest = [charge for charge in step.charges if charge.kind != "margin_call"]
    filled = [order for order in step.fills if order.code is not None and order.filled_shares]
    sells = [order for order in filled if order.side == "SELL"]
    buys = [order for order in filled if order.side != "SELL"]

    yield from map(_interest_event, interest)
    yield from map(_action_event, step.corporate_actions)
    yield from map(_call_event, calls)
    yield from map(_fill_event, (*sells, *buys))


def _interest_event(charge: ChargeRecord) -> AssetEvent:
    return AssetEvent(charge.code, 0, 0, -charge.cash_minor, is_fill=False)


def _action_event(action: CorporateActionRecord) -> AssetEvent:
    change = action.shares_after - action.shares_before
    return AssetEvent(action.code, change, action.cash_minor, 0, is_fill=False)


def _call_event(charge: ChargeRecord) -> AssetEvent:
    received = charge.cash_minor + charge.fee_minor
    return AssetEvent(charge.code, charge.shares, received, charge.fee_minor, is_fill=True)


def _fill_event(order: OrderRecord) -> AssetEvent:
    sign = -1 if order.side == "SELL" else 1
    shares = sign * order.filled_shares
    received = -sign * order.notional_minor
    return AssetEvent(order.code or "", shares, received, order.fee_minor, is_fill=True)


@dataclass(frozen=True)
class AssetGains:
    """Gains of an episode by day and asset, in minor units."""

    codes: Sequence[str]  #: assets that were ever held or traded, in order
    gains: IntArray  #: [steps, assets]
    unexplained: IntArray  #: [steps] change of the NAV minus the day's gains

    @property
    def by_asset(self) -> dict[str, int]:
        """Gain of each asset over the episode."""
        totals: list[int] = self.gains.sum(axis=0).tolist()
        return dict(zip(self.codes, totals, strict=True))

    def largest_loss(self, step: int) -> tuple[str, int] | None:
        """Return the asset that lost most on a day, and its gain; None if no asset lost."""
        if not self.codes:
            return None

        column = int(self.gains[step].argmin())
        gain = int(self.gains[step, column])
        if gain >= 0:
            return None

        return self.codes[column], gain


def asset_gains(ledger: Ledger) -> AssetGains:
    """Return the gain of each asset on each day of an episode."""
    by_day = list(_daily_gains(ledger))
    codes = sorted({code for gains in by_day for code in gains})
    column = {code: place for place, code in enumerate(codes)}

    table = np.zeros((len(by_day), len(codes)), dtype=np.int64)
    for day, gains in enumerate(by_day):
        for code, gain in gains.items():
            table[day, column[code]] = gain

    navs = np.array([ledger.initial_cash_minor, *ledger.column("nav_minor")], dtype=np.int64)
    return AssetGains(codes, table, np.diff(navs) - table.sum(axis=1))


def _daily_gains(ledger: Ledger) -> Iterator[dict[str, int]]:
    """Yield the gains of each step by code."""
    before: dict[str, int] = {}
    for step in ledger.steps:
        gains: defaultdict[str, int] = defaultdict(int)
        for event in asset_events(step):
            gains[event.code] += event.cash_minor

        for code, value in before.items():
            gains[code] -= value

        before = {held.code: held.value_minor for held in step.positions}
        for code, value in before.items():
            gains[code] += value

        yield gains
