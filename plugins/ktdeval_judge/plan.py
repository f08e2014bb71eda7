"""Declared decisions in the market's own codes and days, and the orders that follow from them.

A plan is the input to the model `declared/decisions`: one JSON file, identified by its SHA-256. A
plan does not depend on the program that wrote the decisions.

A day of weights, or of target shares, describes the whole portfolio. Holdings that the day does not
list are sold, unless `others` is `keep`. Days without rows change nothing. Orders are single trades
and leave other holdings unchanged.

Here, shares are rounded down to whole lots, because a broker would reject the whole order if it is
not in whole lots. Orders that close a position are never rounded. Sells of more than the holding
are not rounded either, because the venue decides whether they are short sales or sales of the
holding.

The order of rows within a day has no effect. Sells that reduce a position come first, because their
proceeds pay for other orders. They are followed by short sales, then by purchases that reduce a
short position, then by all other purchases.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import msgspec

from ktdeval.errors import ConfigError
from ktdeval.values import Value, decode_json, dumps_canonical, sha256_hex

PlanForm = Literal["weight", "shares", "orders"]
MAX_BYTES = 256 << 20
SAME = 1e-5  #: relative difference within which a holding, as shown, equals the declared number
NEGLIGIBLE = 1e-9  #: if the gap to a weight is below this share of the NAV, the weight is reached


class PlannedDay(Value):
    """Decisions made at one close."""

    day: str  #: ISO day at whose close the decisions were made
    #: code -> weight or shares to hold; for orders, code -> shares to trade, negative for sells
    rows: tuple[tuple[str, float], ...]


class DeclaredPlan(Value, dict=True):
    """All declared decisions in a run."""

    version: int
    form: PlanForm
    others: Literal["sell", "keep"]  #: what happens to holdings that a day does not list
    days: tuple[PlannedDay, ...]  #: in ascending order of day
    #: shares per lot, by code; a code that is not listed can be traded in any number of shares
    lots: dict[str, float]
    #: codes by which the market names a renumbered asset: code -> first ISO day and code since then
    labels: dict[str, tuple[tuple[str, str], ...]] = msgspec.field(default_factory=dict)

    @property
    def by_day(self) -> Mapping[str, PlannedDay]:
        """Decisions, keyed by ISO day."""
        return {each.day: each for each in self.days}

    @property
    def codes(self) -> tuple[str, ...]:
        """All codes in the plan, in sorted order."""
        named: set[str] = set()
        for each in self.days:
            named.update(code for code, _ in each.rows)

        return tuple(sorted(named))

    def labels_on(self, day: str) -> dict[str, str]:
        """Return the codes by which the market names renumbered assets on an ISO day, keyed by the
        plan's codes.
        """
        return {
            code: [label for first, label in own if first <= day][-1]
            for code, own in self.labels.items()
        }

    def encode(self) -> bytes:
        """Return the contents of the plan's file."""
        days = []
        for each in self.days:
            days.append({"day": each.day, "rows": list(map(list, each.rows))})

        plain: dict[str, Any] = {
            "version": self.version,
            "form": self.form,
            "others": self.others,
            "lots": dict(sorted(self.lots.items())),
            "days": days,
        }
        if self.labels:
            plain["labels"] = {code: list(map(list, own)) for code, own in self.labels.items()}
        return dumps_canonical(plain).encode()

    @cached_property
    def sha256(self) -> str:
        """SHA-256 of the plan's file."""
        return sha256_hex(self.encode())


#: In version 1, a sell of more than the holding closed the holding, and a day's orders were in the
#: order of their rows.
PLAN_VERSION = 2


def read_plan(data: bytes, where: str) -> DeclaredPlan:
    """Parse a plan file. Raises ConfigError, which names the field, if the plan is not valid."""
    if len(data) > MAX_BYTES:
        raise ConfigError(f"{where}: {len(data):,} bytes; at most {MAX_BYTES:,} are read")

    plan = decode_json(data, DeclaredPlan, where, ConfigError)
    if plan.version != PLAN_VERSION:
        raise ConfigError(
            f"{where}: version {plan.version}, expected {PLAN_VERSION}: its orders had different "
            "rules; judge the file of decisions again"
        )

    days = [each.day for each in plan.days]
    if days != sorted(set(days)):
        raise ConfigError(f"{where}: days: expected in ascending order, without repeats")
    for each in plan.days:
        for code, number in each.rows:
            if not math.isfinite(number):
                raise ConfigError(f"{where}: {each.day}: {code}: not a finite number")
    return plan


@dataclass(frozen=True)
class Held:
    """A holding at a close."""

    shares: float
    value: float  #: market value in currency units


@dataclass(frozen=True)
class DeclaredOrder:
    """An order that follows from a decision: a target weight, or a number of shares to trade."""

    code: str
    side: Literal["BUY", "SELL"]
    weight: float | None = None
    shares: float | None = None


class PlanReader:
    """Turns a plan into orders, close by close. Keeps no state apart from the plan."""

    def __init__(self, plan: DeclaredPlan) -> None:
        self._plan = plan
        self._days = plan.by_day
        self._before = _targets_before(plan)

    def orders(self, day: str, held: Mapping[str, Held], nav: float) -> list[DeclaredOrder]:
        """Return the orders at a close, sells first. Empty if no decision was made on this day.
        `held`: holdings by code. `nav`: account value at this close.
        """
        decided = self._days.get(day)
        if decided is None:
            return []
        if self._plan.form == "orders":
            orders = self._singles(decided, held)
        else:
            orders = self._portfolio(decided, held, nav)

        known = [order for order in orders if order is not None]
        return sorted(known, key=lambda order: _turn(order, held))

    def _singles(self, decided: PlannedDay, held: Mapping[str, Held]) -> list[DeclaredOrder | None]:
        left = {code: own.shares for code, own in held.items()}
        orders: list[DeclaredOrder | None] = []
        for code, shares in decided.rows:
            own = left.get(code, 0.0)
            # Holdings are shown with six significant digits, so an order of approximately this size
            # closes the holding.
            shown = held.get(code, Held(0.0, 0.0)).shares
            if own and abs(own + shares) <= SAME * abs(shown):
                orders.append(DeclaredOrder(code, "BUY" if shares > 0 else "SELL", weight=0.0))
            elif shares < -max(own, 0.0):
                orders.append(DeclaredOrder(code, "SELL", shares=-shares))
            else:
                orders.append(self._make_order(code, shares))

            if shares < 0:  # purchases come after all of the day's sells
                left[code] = own + shares

        return orders

    def _portfolio(
        self, decided: PlannedDay, held: Mapping[str, Held], nav: float
    ) -> list[DeclaredOrder | None]:
        goals = dict(decided.rows)
        if self._plan.others == "sell":
            for code in held.keys() - goals.keys():
                goals[code] = 0.0

        orders: list[DeclaredOrder | None] = []
        for code, goal in sorted(goals.items(), reverse=True):
            own = held.get(code, Held(0.0, 0.0))
            if self._plan.form == "weight":
                orders.append(_to_weight(code, goal, own, nav))
            else:
                orders.append(self._to_shares(decided.day, code, goal, own))

        return orders

    def _to_shares(self, day: str, code: str, goal: float, own: Held) -> DeclaredOrder | None:
        if goal == 0.0:
            return _to_weight(code, 0.0, own, 1.0)

        # Holdings are shown with six significant digits, but the number declared previously is
        # exact.
        shares = own.shares
        before = self._before.get((day, code))
        if before is not None and abs(shares - before) <= SAME * abs(before):
            shares = before

        return self._make_order(code, goal - shares)

    def _make_order(self, code: str, shares: float) -> DeclaredOrder | None:
        """Return an order for these shares, in whole lots. A negative number of shares is a
        sell.
        """
        size = abs(shares)
        lot = self._plan.lots.get(code)
        if lot is not None:
            size = in_lots(size, lot)
        if size <= 0:
            return None
        return DeclaredOrder(code, "BUY" if shares > 0 else "SELL", shares=size)


def _turn(order: DeclaredOrder, held: Mapping[str, Held]) -> tuple[bool, bool]:
    """Return the sort key for an order at its close. Sells come first. Within sells and within
    buys, orders that open a position come last.
    """
    own = held.get(order.code, Held(0.0, 0.0))
    is_buy = order.side == "BUY"
    if is_buy:
        is_opening = own.shares >= 0
    elif order.weight is not None:
        is_opening = order.weight < 0
    else:
        is_opening = (order.shares or 0.0) > own.shares * (1 + SAME)

    return is_buy, is_opening


def in_lots(shares: float, lot: float) -> float:
    """Return shares rounded down to whole lots. A small tolerance allows for float errors."""
    return math.floor(shares / lot + SAME) * lot


def _to_weight(code: str, goal: float, own: Held, nav: float) -> DeclaredOrder | None:
    """Return an order to a target weight. Its side is determined by the last close, and its size by
    the fill price.
    """
    gap = goal * nav - own.value
    if goal == 0.0 and own.shares == 0.0:
        return None
    if abs(gap) <= NEGLIGIBLE * nav and goal != 0.0:
        return None
    return DeclaredOrder(code, "BUY" if gap > 0 else "SELL", weight=goal)


def _targets_before(plan: DeclaredPlan) -> dict[tuple[str, str], float]:
    """Return the number of shares that was last declared for each code before each day on which the
    code is declared.
    """
    if plan.form != "shares":
        return {}

    before: dict[tuple[str, str], float] = {}
    last: dict[str, float] = {}
    for each in plan.days:
        for code, shares in each.rows:
            if code in last:
                before[each.day, code] = last[code]
            last[code] = shares

    return before


def scale_plan(plan: DeclaredPlan, times: int) -> DeclaredPlan:
    """Return the plan for an account that is `times` as large, without lots."""
    if plan.form == "weight":
        return _with(plan, plan.days, {})

    days = []
    for each in plan.days:
        rows = tuple((code, number * times) for code, number in each.rows)
        days.append(PlannedDay(day=each.day, rows=rows))
    return _with(plan, tuple(days), {})


def _with(plan: DeclaredPlan, days: Sequence[PlannedDay], lots: dict[str, float]) -> DeclaredPlan:
    return DeclaredPlan(
        version=plan.version,
        form=plan.form,
        others=plan.others,
        days=tuple(days),
        lots=lots,
        labels=plan.labels,
    )
