"""An account kept by hand in exact fractions: orders of a ledger are believed, prices, costs, limits and sums worked out again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import floor
from typing import Any

import pandas as pd
import pytest

from ktdeval.trading.ledger import OrderRecord, StepRecord

CASH_FEN = 100_000_000
JITTER = Fraction(1, 100_000)
LIMITS = {"main": Fraction(10, 100), "growth": Fraction(20, 100), "bse": Fraction(30, 100)}


@dataclass(frozen=True)
class Raw:
    """Code -> day: open and close in fen (whole) where it traded, the factor as an exact number, spells of membership."""

    days: list[str]
    open: Mapping[str, Mapping[str, int]]
    close: Mapping[str, Mapping[str, int]]
    factor: Mapping[str, Mapping[str, Fraction]]
    spells: Mapping[str, list[tuple[str, str]]]

    def trades(self, code: str, day: str) -> bool:
        return day in self.open[code]

    def is_member(self, code: str, day: str) -> bool:
        return any(first <= day <= last for first, last in self.spells.get(code, []))

    def is_at_limit(self, code: str, day: str, side: str) -> bool:
        """Is the open at or beyond half a point short of the board's limit, against the last close in the day's own terms?"""
        earlier = [known for known in self.close[code] if known < day]
        if not earlier:
            return False
        last = max(earlier)
        reference = self.close[code][last] * self.factor[code][last] / self.factor[code][day]
        kind = "growth" if code.startswith(("30", "688", "689")) else "bse" if code.endswith(".BJ") else "main"
        move, stop = self.open[code][day] / reference - 1, LIMITS[kind] - Fraction(5, 1000)
        return move >= stop if side == "BUY" else move <= -stop


def raw_of(tables: Mapping[str, pd.DataFrame]) -> Raw:
    """From [days, codes] tables of open, close, volume, factor and member; index and columns are texts, prices whole fen."""

    def by_code(name: str, used: pd.DataFrame, convert: Callable[[float], Any]) -> dict[str, dict[str, Any]]:
        columns = {code: tables[name][code][used[code]] for code in used}
        return {code: {day: convert(value) for day, value in column.items()} for code, column in columns.items()}

    traded, member = tables["open"].notna() & (tables["volume"] > 0), tables["member"].astype(bool)
    return Raw(
        days=list(tables["open"].index),
        **{name: by_code(name, traded, lambda price: round(price * 100)) for name in ("open", "close")},
        factor=by_code("factor", tables["factor"].notna(), Fraction),
        spells={code: [(day, day) for day in member.index[member[code]]] for code in member},
    )


@dataclass
class Lot:
    """A holding: shares, those bought today, and what one was worth at the last close, in fen of today's terms."""

    shares: int
    today: int = 0
    mark: Fraction = Fraction(0)


def half_up(value: Fraction) -> int:
    return floor(value + Fraction(1, 2))


@dataclass
class Books:
    """Cash, holdings and the last factor applied to each; `seen` counts what came by."""

    raw: Raw
    cash: int = CASH_FEN
    lots: dict[str, Lot] = field(default_factory=dict)
    factor: dict[str, Fraction] = field(default_factory=dict)
    seen: Counter[str] = field(default_factory=Counter)

    def keep(self, steps: Sequence[StepRecord]) -> Counter[str]:
        """Keep the books over all steps and compare them with each."""
        for step in steps:
            day = step.filled_on
            assert step.decided_on == self.raw.days[self.raw.days.index(day) - 1]
            self._overnight(step)
            opens = (half_up(lot.shares * self.raw.open[code].get(day, lot.mark)) for code, lot in self.lots.items())
            nav = self.cash + sum(opens)
            assert step.open_nav_minor == nav, day
            self.seen["suspended"] += sum(not self.raw.trades(code, day) for code in self.lots)
            for side in ("SELL", "BUY"):
                for order in step.orders:
                    if order.side == side:
                        self._judge(day, order, nav)
            self._close(step)
        return self.seen

    def _overnight(self, step: StepRecord) -> None:
        """Factor changes as the ledger says they were: no holding gains or loses a fen."""
        day, raw = step.filled_on, self.raw
        booked = {change.code: change for change in step.corporate_actions}
        self.seen["changes"] += len(booked)
        for code, lot in list(self.lots.items()):
            lot.today = 0
            now = raw.factor[code].get(day, self.factor[code])
            ratio = now / self.factor[code]
            if abs(ratio - 1) <= JITTER:
                assert code not in booked
                continue
            change, self.factor[code] = booked.pop(code), now
            assert change.ratio == pytest.approx(float(ratio), rel=1e-8)
            assert (change.shares_before, change.shares_after) == (lot.shares, floor(lot.shares * ratio))
            before, ex_price = lot.shares * lot.mark, lot.mark / ratio
            if not raw.trades(code, day):  # such a holding is marked at a whole tick of 1/10,000 CNY
                ex_price = Fraction(floor(ex_price * 100), 100)
            assert abs(change.shares_after * ex_price + change.cash_minor - before) <= 1, (day, code)
            assert 0 <= change.cash_minor <= lot.mark + 1 + (0 if raw.trades(code, day) else change.shares_after / 100)
            self.cash += change.cash_minor
            self.lots[code] = Lot(change.shares_after, 0, ex_price)
        assert not booked

    def _judge(self, day: str, order: OrderRecord, nav: int) -> None:
        assert (order.status == "filled") == (order.rule is None)
        assert (order.status == "rejected") == (order.filled_shares == 0)
        if order.filled_shares:
            self.seen["fills"] += 1
            self._fill(day, order, nav)
            return
        assert order.notional_minor == order.fee_minor == 0
        if order.rule == "price_limit":
            assert self.raw.is_at_limit(order.code, day, order.side)
            self.seen["at limit"] += 1

    def _fill(self, day: str, order: Any, nav: int) -> None:
        """Book one fill, judging it by every rule."""
        code, shares, raw = order.code, order.filled_shares, self.raw
        assert raw.trades(code, day), "no fill on a suspended day"
        price = raw.open[code][day]
        assert order.price_ticks == price * 100, "fills are at the open"
        assert not raw.is_at_limit(code, day, order.side)
        notional = shares * price
        fee = max(500, half_up(notional * Fraction(5 if order.side == "BUY" else 15, 10_000)))
        assert (order.notional_minor, order.fee_minor) == (notional, fee)
        if order.side == "BUY":
            assert raw.is_member(code, day), "buys are of members"
            assert shares % 100 == 0
            assert shares >= (200 if code.startswith(("688", "689")) else 100)
            lot = self.lots.setdefault(code, Lot(0))
            self.factor.setdefault(code, raw.factor[code][day])
            lot.shares, lot.today = lot.shares + shares, lot.today + shares
            assert lot.shares * price * 10 <= nav, "at most a tenth of NAV in one name"
            self.cash -= notional + fee
        else:
            lot = self.lots[code]
            assert shares <= lot.shares - lot.today, "T+1"
            assert shares % 100 == 0 or (lot.shares - lot.today - shares) % 100 == 0
            lot.shares -= shares
            self.cash += notional - fee
            if not lot.shares:
                del self.lots[code], self.factor[code]
        assert self.cash >= 0
        assert len(self.lots) <= 20

    def _close(self, step: StepRecord) -> None:
        """Mark at the closes and compare holdings, cash and NAV with the ledger."""
        day, worth = step.filled_on, {}
        for code, lot in self.lots.items():
            if self.raw.trades(code, day):
                lot.mark = Fraction(self.raw.close[code][day])
            worth[code] = half_up(lot.shares * lot.mark)
        recorded = {row.code: (row.shares, row.locked, row.value_minor) for row in step.positions}
        assert recorded == {code: (lot.shares, lot.today, worth[code]) for code, lot in self.lots.items()}, day
        assert (step.cash_minor, step.holdings_minor) == (self.cash, sum(worth.values())), day
        assert step.nav_minor == self.cash + sum(worth.values()), day
