"""A slow broker for A-shares and any other venue, from the rules alone: Decimal money and
quantities, figures from the raw bars.

It shares no code and no representation with `ktdeval.trading`. A holding is a Decimal number of
shares or coins, below zero when sold short; what was bought today is kept apart. Where it and the
engine agree, the rules are what both implement.

`keep` plays a ledger's orders in it from raw tables of a market, and compares each step with what
comes of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import (
    ROUND_CEILING,
    ROUND_DOWN,
    ROUND_FLOOR,
    ROUND_HALF_EVEN,
    ROUND_HALF_UP,
    Decimal,
    getcontext,
)
from functools import cached_property
from itertools import chain, pairwise
from typing import Any

import pandas as pd

from support.market import reference_execution as execution

getcontext().prec = 120
CENT = Decimal("0.01")
BILLIONTH = Decimal("0.000000001")
D = Decimal
NOTHING = D(0)


@dataclass
class House:
    """Rules of one venue, in units of currency, shares and per cent."""

    tick: D
    step: D
    lot: D
    smallest: D
    locks: bool
    fill: str
    buy_bps: D
    sell_bps: D
    per_unit: D
    minimum: D
    maximum_bps: D | None
    sell_levy_bps: D
    sell_levy_per_unit: D
    sell_levy_most: D | None
    initial: D | None  #: None where there are no shorts
    maintenance: D
    borrow: D
    min_buy: D = NOTHING  #: quantity
    #: of A-shares, whose sums are rounded half up: move from the reference at which trading stops
    limit: D | None = None


@dataclass
class Series:
    """One asset: prices None without a bar, volume None where it is unknown. What is derived is
    taken when all days are there.
    """

    house: House
    opens: list[D | None]
    closes: list[D | None]
    volumes: list[D | None]
    factors: list[D]
    members: list[bool]
    costs: execution.Costs | None = None  #: None where fills are free of size
    figures: list[execution.Figures] = field(default_factory=list)  #: by day
    highs: list[D | None] = field(default_factory=list)  #: only where orders have limits
    lows: list[D | None] = field(default_factory=list)

    @cached_property
    def ratios(self) -> list[D]:
        """Each day's factor over that of the day before; moves of up to one part in 100,000 from
        the last accepted one are none.
        """
        accepted = [self.factors[0]]

        for factor in self.factors[1:]:
            last = accepted[-1]
            accepted.append(last if abs(factor - last) <= D("0.00001") * last else factor)

        return [
            D(1),
            *(
                (now / before).quantize(BILLIONTH, ROUND_HALF_EVEN)
                for before, now in pairwise(accepted)
            ),
        ]

    @cached_property
    def references(self) -> list[D | None]:
        """Each day's mark of the day before in its own terms, cut to a tick where the factor
        changed.
        """
        marks: list[D | None] = []

        for ratio, before in zip(self.ratios, [None, *self.closes]):
            mark = before if before is not None else marks[-1] if marks else None
            marks.append(
                mark
                if mark is None or ratio == 1
                else (mark / ratio).quantize(self.house.tick, ROUND_FLOOR)
            )

        return marks

    def mark(self, day: int) -> D | None:
        """Last close in the terms of the day."""
        return self.closes[day] if self.closes[day] is not None else self.references[day]

    def trades(self, day: int) -> bool:
        on = day - 1 if self.house.fill == "same_close" else day
        price = self.opens[on] if self.house.fill == "next_open" else self.closes[on]
        volume = self.volumes[on]

        if volume is None and self.house.limit is not None:
            return False

        return price is not None and volume != 0 and bool(self.price(day, True))

    def price(self, day: int, trading: bool) -> D | None:
        if not trading or self.house.fill == "same_close":
            return self.references[day]

        return self.opens[day] if self.house.fill == "next_open" else self.closes[day]

    def open_price(self, day: int) -> D:
        price = self.price(day, self.trades(day))
        return D(0) if price is None else price

    def at_limit(self, day: int, sign: int) -> bool:
        """Is the open so near the upper (1) or lower (-1) limit, or beyond it, that it can't be
        bought or sold?
        """
        limit = self.house.limit
        reference = self.references[day]

        return (
            None not in (limit, reference)
            and sign * (self.open_price(day) - reference * (1 + sign * limit)) >= 0
        )


@dataclass
class Ending:
    status: str
    rule: str | None
    quantity: D = NOTHING
    notional: D = NOTHING
    fee: D = NOTHING
    wanted: D = NOTHING  #: before the day's volume has cut it


def cents(amount: D) -> D:
    return amount.quantize(CENT, ROUND_HALF_UP)


def paid_up(amount: D) -> D:
    return amount.quantize(CENT, ROUND_CEILING)


@dataclass
class Broker:
    market: list[Series]
    days_a_year: int
    cash: D
    max_names: int
    max_weight: D
    held: dict[int, D] = field(default_factory=dict)
    fresh: dict[int, D] = field(default_factory=dict)
    charges: list[tuple[str, int, D]] = field(default_factory=list)
    opening: dict[int, D] = field(default_factory=dict)  #: held before the day's orders
    traded: Counter[tuple[int, bool]] = field(default_factory=Counter)  #: asset, is a sell
    #: rests that go on the next day
    working: list[tuple[int | None, str, D | None, D | None]] = field(default_factory=list)
    # Of the order that is judged: price that its limit lets it fill at, None if the day does not
    # reach that, and whether it fills after the open. Of the day: what only comes after the open.
    reached: D | None = None
    is_late: bool = False
    late_cash: D = NOTHING
    sold_late: set[int] = field(default_factory=set)

    def worth(self, day: int, at_open: bool) -> D:
        prices = [
            series.open_price(day) if at_open else series.mark(day) or D(0)
            for series in self.market
        ]
        return self.cash + sum(
            cents(quantity * prices[asset]) for asset, quantity in self.held.items()
        )

    def fee(self, house: House, quantity: D, notional: D, selling: bool) -> D:
        bps = house.sell_bps if selling else house.buy_bps
        if house.limit is not None:
            return max(cents(notional * bps / 10_000), house.minimum)

        paid = max(paid_up(notional * bps / 10_000 + quantity * house.per_unit), house.minimum)
        if house.maximum_bps is not None:
            paid = min(paid, paid_up(notional * house.maximum_bps / 10_000))

        if not selling:
            return paid

        levy = paid_up(quantity * house.sell_levy_per_unit)
        most = levy if house.sell_levy_most is None else house.sell_levy_most

        return paid + paid_up(notional * house.sell_levy_bps / 10_000) + min(levy, most)

    def notional(self, house: House, amount: D, selling: bool) -> D:
        if house.limit is not None:
            return cents(amount)

        return amount.quantize(CENT, ROUND_FLOOR) if selling else paid_up(amount)

    def asked(self, day: int, held: dict[int, D], initial: bool) -> D:
        """Cash that shorts ask for."""
        total = D(0)
        for asset, quantity in held.items():
            house = self.market[asset].house
            if quantity < 0:
                assert house.initial is not None
                percent = house.initial if initial else house.maintenance
                total += cents(
                    cents(-quantity * self.market[asset].open_price(day)) * (1 + percent / 100)
                )

        return total

    def begin(self, day: int) -> None:
        """Everything before the day's orders."""
        self.fresh, self.charges = {}, []
        for asset in sorted(self.held):
            series = self.market[asset]
            if self.held[asset] < 0:
                value = cents(-self.held[asset] * (series.mark(day - 1) or D(0)))
                interest = paid_up(value * series.house.borrow / 100 / self.days_a_year)
                if interest:
                    self.charges.append(("borrow", asset, -interest))
                    self.cash -= interest

        for asset in sorted(self.held):
            self.scale(asset, day)

        for side in (-1, 1):
            while True:
                enough = self.cash >= (self.asked(day, self.held, False) if side < 0 else 0)
                sized = [
                    (-cents(abs(quantity) * self.market[asset].open_price(day)), asset)
                    for asset, quantity in self.held.items()
                    if quantity * side > 0 and self.market[asset].trades(day)
                ]
                if enough or not sized:
                    break

                self.liquidate(min(sized)[1], day)

    def scale(self, asset: int, day: int) -> None:
        series = self.market[asset]
        before = self.held[asset]
        ratio = series.ratios[day]
        old = series.mark(day - 1)

        if ratio == 1 or not old:
            return

        after = (before * ratio / series.house.step).to_integral_value(
            ROUND_DOWN
        ) * series.house.step
        worth = (
            after * old / ratio if series.trades(day) else after * (series.references[day] or D(0))
        )
        self.cash += cents(before * old) - cents(worth)
        self.put(asset, after)

    def liquidate(self, asset: int, day: int) -> None:
        quantity = self.held[asset]
        series = self.market[asset]
        price = self.price_of_call(day, asset, quantity)
        notional = self.notional(series.house, abs(quantity) * price, quantity > 0)
        fee = self.fee(series.house, abs(quantity), notional, quantity > 0)
        change = (notional if quantity > 0 else -notional) - fee
        self.charges.append(("margin_call", asset, change))
        self.cash += change
        self.put(asset, D(0))

    def put(self, asset: int, quantity: D) -> None:
        self.held.pop(asset, None)
        if quantity:
            self.held[asset] = quantity

    def trade(
        self,
        day: int,
        orders: list[tuple[int | None, str, D | None, D | None]],
        limits: Sequence[D | None] = (),
    ) -> list[Ending]:
        """Fill orders (asset, side, weight, quantity), each with a limit or None in `limits`."""
        nav = self.worth(day, True)
        self.opening = dict(self.held)
        self.traded.clear()
        ends: dict[int, Ending] = {}
        limits = limits or [None] * len(orders)
        reached = [
            self.reach(day, asset, side, limit)
            for (asset, side, _, _), limit in zip(orders, limits, strict=True)
        ]

        for wanted_side, late in (("SELL", None), ("BUY", False), ("BUY", True)):
            for index, (asset, side, weight, quantity) in enumerate(orders):
                self.reached, self.is_late = reached[index]
                if side == wanted_side and late in (None, self.is_late):
                    ends[index] = self.judge(day, asset, side, weight, quantity, nav)

        self.cash += self.late_cash
        self.late_cash = NOTHING
        self.sold_late = set()
        self.working = []
        for index, (asset, side, _, _) in enumerate(orders):
            end = ends.get(index)
            if end is None or end.rule != "volume" or asset is None:
                continue

            costs = self.market[asset].costs
            if costs is not None and costs.carries and end.wanted > end.quantity:
                self.working.append((asset, side, None, end.wanted - end.quantity))

        return [ends.get(index, Ending("rejected", "schema")) for index in range(len(orders))]

    def reach(
        self, day: int, asset: int | None, side: str, limit: D | None
    ) -> tuple[D | None, bool]:
        """Price of a fill before its costs, None if the day does not reach the limit, and whether
        it is late.
        """
        if asset is None:
            return None, False

        series = self.market[asset]
        price = series.open_price(day)
        if limit is None:
            return price, False

        if series.costs is not None:
            raise NotImplementedError("limits where the price of a fill depends on its size")

        selling = side == "SELL"
        ratio = series.ratios[day] if series.mark(day - 1) else D(1)
        rounding = ROUND_CEILING if selling else ROUND_FLOOR
        limit = (limit / ratio).quantize(series.house.tick, rounding)
        if price >= limit if selling else price <= limit:
            return price, False

        furthest = series.highs[day] if selling else series.lows[day]
        if furthest is None or series.house.fill != "next_open":
            return None, False
        if furthest > limit if selling else furthest < limit:
            return limit, True
        return None, False

    def has_no_room(self, asset: int) -> bool:
        """Is it one name too many, with those that were only sold after the open?"""
        names = self.sold_late.union(self.held)
        return asset not in names and len(names) >= self.max_names

    def price(self, day: int, asset: int, quantity: D, selling: bool) -> D:
        """Price of a fill of a quantity."""
        series = self.market[asset]
        if series.costs is None:
            assert self.reached is not None
            return self.reached

        reference = series.open_price(day)
        step = series.house.step
        opening = self.opening.get(asset, D(0)) / step
        fill = execution.Fill(
            execution.F(reference),
            execution.F(step),
            execution.F(series.house.tick),
            selling,
            execution.F(self.traded[asset, selling] / step),
            execution.F(max(D(0), -opening if selling else opening)),
        )
        paid = execution.price(
            series.costs, series.figures[day], fill, execution.F(quantity / step)
        )
        return D(paid.numerator) / D(paid.denominator)

    def price_of_call(self, day: int, asset: int, quantity: D) -> D:
        """Price at which a position is closed, of whatever size; without an impact where that is
        not known.
        """
        series = self.market[asset]
        reference = series.open_price(day)
        if series.costs is None:
            return reference

        costs = series.costs
        figures = series.figures[day]
        if not figures.sigma or not figures.volume:
            costs = replace(costs, activity=None, impact=execution.F(0), permanent=execution.F(0))

        house = series.house
        fill = execution.Fill(
            execution.F(reference), execution.F(house.step), execution.F(house.tick), quantity > 0
        )
        paid = execution.price(costs, figures, fill, execution.F(abs(quantity) / house.step))
        return D(paid.numerator) / D(paid.denominator)

    def left(self, day: int, asset: int, quantity: D) -> D:
        """What the day's volume leaves of a quantity, in whole lots where it is less."""
        series = self.market[asset]
        if series.costs is None:
            return quantity

        figures = series.figures[day]
        if series.costs.needs_figures and not (figures.sigma and figures.volume):
            return D(0)
        if series.costs.participation is None:
            return quantity

        share = series.costs.participation * figures.traded
        most = D(share.numerator // share.denominator) * series.house.step
        most -= self.traded[asset, True] + self.traded[asset, False]
        if quantity <= most:
            return quantity
        return max(D(0), most // series.house.lot * series.house.lot)

    def judge(
        self, day: int, asset: int | None, side: str, weight: D | None, quantity: D | None, nav: D
    ) -> Ending:
        selling = side == "SELL"
        shorts = asset is not None and self.market[asset].house.initial is not None
        is_sized = weight is not None and quantity is not None  # at the decision

        if weight is None and (quantity is None or quantity <= 0):
            return Ending("rejected", "schema")

        if is_sized and quantity is not None and quantity < 0:
            return Ending("rejected", "schema")

        if weight is not None and (weight.is_nan() or not (-1 if shorts else 0) <= weight <= 1):
            return Ending("rejected", "schema")

        if asset is None:
            return Ending("rejected", "universe")

        series = self.market[asset]
        have = self.held.get(asset, D(0))
        house = series.house

        if not selling and have >= 0 and not series.members[day]:
            return Ending("rejected", "universe")

        if selling and not shorts and not have:
            return Ending("rejected", "holding")

        if not series.trades(day):
            return Ending("rejected", "suspended")

        if series.at_limit(day, -1 if selling else 1):
            return Ending("rejected", "price_limit")

        if not selling and not have and self.has_no_room(asset):
            return Ending("rejected", "position_limit")

        price = series.open_price(day)
        if quantity is None:
            assert weight is not None
            target = (
                weight.quantize(BILLIONTH, ROUND_HALF_EVEN) * nav / price / house.step
            ).to_integral_value(ROUND_DOWN) * house.step
            if target >= have if selling else target <= have:
                return Ending("rejected", "target")

            target = (target / house.lot).to_integral_value(ROUND_DOWN) * house.lot
            quantity = have - target if selling else max(target - have, D(0))
            if not selling and have >= 0:
                quantity = (quantity / house.lot).to_integral_value(ROUND_DOWN) * house.lot
        elif is_sized and not quantity:
            return Ending("rejected", "target")

        after = have - quantity if selling else have + quantity
        price = series.open_price(day)
        is_heavy = abs(after) * price > self.max_weight * nav

        if is_sized and weight is not None:
            is_heavy = abs(weight).quantize(BILLIONTH, ROUND_HALF_EVEN) > self.max_weight

        if selling:
            return self.sell(day, asset, quantity, have, is_heavy)

        return self.buy(day, asset, quantity, have, is_heavy)

    def sell(self, day: int, asset: int, quantity: D, have: D, is_heavy: bool) -> Ending:
        series = self.market[asset]
        house = series.house
        free = have - self.fresh.get(asset, D(0))
        short = quantity - have

        if quantity <= 0:
            return Ending("rejected", "lot")

        if house.initial is None or short <= 0:
            if free <= 0:
                return Ending("rejected", "t_plus_1")

            sold = min(quantity, free)
            if sold % house.lot and (free - sold) % house.lot:
                return Ending("rejected", "lot")

            if self.reached is None:
                return Ending("rejected", "limit")

            rule = None if sold == quantity else "t_plus_1" if free < have else "holding"
            return self.sell_held(day, asset, sold, rule)

        if self.fresh.get(asset):
            return Ending("rejected", "t_plus_1")

        if not series.members[day]:
            return Ending("rejected", "universe")

        if not have and self.has_no_room(asset):
            return Ending("rejected", "position_limit")

        if is_heavy:
            return Ending("rejected", "weight_limit")

        if short % house.lot:
            return Ending("rejected", "lot")

        if self.reached is None:
            return Ending("rejected", "limit")

        wanted = quantity
        quantity = self.left(day, asset, wanted)
        if not quantity:
            return Ending("rejected", "volume", wanted=wanted)

        short = quantity - have
        if short <= 0:
            return replace(self.sell_held(day, asset, quantity, "volume"), wanted=wanted)

        notional = self.notional(house, quantity * self.price(day, asset, quantity, True), True)
        if notional < house.smallest:
            return Ending("rejected", "minimum")

        fee = self.fee(house, quantity, notional, True)
        if self.cash + notional - fee < self.asked(day, {**self.held, asset: -short}, True):
            return Ending("rejected", "margin")

        rule = None if quantity == wanted else "volume"
        # The value of the short at the open is no cash that anything could be bought with.
        kept = cents(short * series.open_price(day))
        return replace(self.done(asset, -quantity, notional, fee, rule, kept), wanted=wanted)

    def sell_held(self, day: int, asset: int, wanted: D, rule: str | None) -> Ending:
        """Sell what is held and free; `rule`: what has cut the order to it."""
        house = self.market[asset].house
        sold = self.left(day, asset, wanted)
        if not sold:
            return Ending("rejected", "volume", wanted=wanted)

        notional = self.notional(house, sold * self.price(day, asset, sold, True), True)
        fee = self.fee(house, sold, notional, True)
        if self.cash + notional - fee < 0:
            return Ending("rejected", "cash")

        if sold < wanted:
            rule = "volume"
        return replace(self.done(asset, -sold, notional, fee, rule), wanted=wanted)

    def buy(self, day: int, asset: int, quantity: D, have: D, is_heavy: bool) -> Ending:
        series = self.market[asset]
        house = series.house
        price = series.open_price(day)
        after = have + quantity

        if have < 0 < after and not series.members[day]:
            return Ending("rejected", "universe")

        if (after > 0 or have >= 0) and is_heavy:
            return Ending("rejected", "weight_limit")

        if (
            quantity <= 0
            or (quantity % house.lot and (have >= 0 or after))
            or (have >= 0 and quantity < house.min_buy)
        ):
            return Ending("rejected", "lot")

        others = {other: held for other, held in self.held.items() if other != asset}

        def worth(amount: D) -> D:
            if not amount:
                return D(0)
            return self.notional(house, amount * self.price(day, asset, amount, False), False)

        def paid(amount: D) -> D:
            return worth(amount) + self.fee(house, amount, worth(amount), False)

        if have >= 0 and self.notional(house, quantity * price, False) < house.smallest:
            return Ending("rejected", "minimum")

        if self.reached is None:
            return Ending("rejected", "limit")

        wanted = quantity
        quantity = self.left(day, asset, wanted)
        after = have + quantity
        if quantity == wanted and have >= 0 and worth(quantity) < house.smallest:
            return Ending("rejected", "minimum")

        if not quantity or (
            have >= 0 and (quantity < house.min_buy or worth(quantity) < house.smallest)
        ):
            return Ending("rejected", "volume", wanted=wanted)

        rule = None if quantity == wanted else "volume"
        cash = self.cash - (
            self.asked(day, others if have < 0 else self.held, True) if after > 0 else 0
        )
        bought = quantity
        if paid(quantity) > cash:
            if have < 0 < after:
                return Ending("rejected", "cash")

            rule = "cash"
            low = 0
            high = int(quantity / house.lot)
            while low < high:
                middle = (low + high + 1) // 2
                low, high = (
                    (middle, high) if paid(middle * house.lot) <= cash else (low, middle - 1)
                )

            bought = low * house.lot
            if not bought or (
                have >= 0 and (bought < house.min_buy or worth(bought) < house.smallest)
            ):
                return Ending("rejected", "cash")

        fresh = house.locks and have + bought > 0
        if fresh:
            self.fresh[asset] = self.fresh.get(asset, D(0)) + bought + min(have, D(0))

        notional = worth(bought)
        end = self.done(asset, bought, notional, paid(bought) - notional, rule)
        return replace(end, wanted=wanted)

    def done(
        self, asset: int, change: D, notional: D, fee: D, rule: str | None, kept: D = NOTHING
    ) -> Ending:
        paid = (notional if change < 0 else -notional) - fee
        after = self.held.get(asset, D(0)) + change
        if change < 0 and self.is_late:
            self.late_cash += max(paid - kept, NOTHING)
            paid = min(paid, kept)
            if not after:
                self.sold_late.add(asset)

        self.cash += paid
        self.put(asset, after)
        self.traded[asset, change < 0] += abs(change)
        return Ending(
            "filled" if rule is None else "partially_filled", rule, abs(change), notional, fee
        )


# ---- an account from its ledger and raw tables

#: half a point short of the boards' limits
LIMITS = {"main": D("0.095"), "growth": D("0.195"), "bse": D("0.295")}
_NO_LEVY = {"sell_levy_bps": NOTHING, "sell_levy_per_unit": NOTHING, "sell_levy_most": None}
_NO_SHORTS = {"initial": None, "maintenance": NOTHING, "borrow": NOTHING}


def a_share(code: str) -> House:
    """Rules of an A-share with the costs of the tasks: 5 and 15 basis points, at least 5 CNY."""
    star = code.startswith(("688", "689"))
    board = "growth" if star or code.startswith("30") else "bse" if code.endswith(".BJ") else "main"
    fees = {
        "buy_bps": D(5),
        "sell_bps": D(15),
        "per_unit": NOTHING,
        "minimum": D(5),
        "maximum_bps": None,
    }
    size = {
        "tick": D("0.0001"),
        "step": D(1),
        "lot": D(100),
        "smallest": NOTHING,
        "min_buy": D(200 if star else 100),
    }

    return House(
        **size, locks=True, fill="next_open", **fees, **_NO_LEVY, **_NO_SHORTS, limit=LIMITS[board]
    )


def us_stock(_code: str) -> House:
    """Rules of a US stock in the days of the data, June to October 2025: 0.005 a share, at least
    1.00, at most 1 %; on sells FINRA's 0.000166 a share, and nothing of the SEC's.
    """
    fees = {
        "buy_bps": NOTHING,
        "sell_bps": NOTHING,
        "per_unit": D("0.005"),
        "minimum": D(1),
        "maximum_bps": D(100),
    }
    levy = {
        "sell_levy_bps": NOTHING,
        "sell_levy_per_unit": D("0.000166"),
        "sell_levy_most": D("8.30"),
    }
    shorts = {"initial": D(50), "maintenance": D(30), "borrow": D("0.5")}
    size = dict.fromkeys(("tick", "step", "lot"), D("0.0001"))

    return House(**size, smallest=NOTHING, locks=False, fill="next_open", **fees, **levy, **shorts)


def coin(_code: str) -> House:
    """Rules of a coin: ten basis points a fill, 5 USD at least."""
    fees = {
        "buy_bps": D(10),
        "sell_bps": D(10),
        "per_unit": NOTHING,
        "minimum": NOTHING,
        "maximum_bps": None,
    }
    size = dict.fromkeys(("tick", "step", "lot"), D("0.00000001"))

    return House(
        **size, smallest=D(5), locks=False, fill="next_open", **fees, **_NO_LEVY, **_NO_SHORTS
    )


def series_of(tables: Mapping[str, pd.DataFrame], code: str, house: House) -> Series:
    """One asset of [days, codes] tables of open, close, volume, factor and member."""

    def column(name: str) -> list[D | None]:
        return [None if pd.isna(value) else D(repr(float(value))) for value in tables[name][code]]

    factors = [D(repr(float(value))) for value in tables["factor"][code].ffill().bfill()]

    return Series(
        house,
        column("open"),
        column("close"),
        column("volume"),
        factors,
        tables["member"][code].astype(bool).tolist(),
    )


def keep(
    tables: Mapping[str, pd.DataFrame],
    steps: Sequence[Any],
    house_of: Callable[[str], House] = a_share,
    cash: int = 1_000_000,
    most: tuple[int, str] = (20, "0.1"),
    days_a_year: int = 252,
) -> Counter[str]:
    """Play the orders of a ledger and compare every step with it; counts of what came by. `most`:
    names, and weight of one.
    """
    seen: Counter[str] = Counter()
    days = list(tables["open"].index)
    orders = chain.from_iterable(step.orders for step in steps)
    codes = sorted({order.code for order in orders if order.code is not None})
    series = [series_of(tables, code, house_of(code)) for code in codes]
    sizes = [one.house.step for one in series]
    place_of = {code: index for index, code in enumerate(codes)}
    broker = Broker(series, days_a_year, D(cash), most[0], D(most[1]))

    for step in steps:
        day = days.index(step.filled_on)
        assert step.decided_on == days[day - 1]
        before = dict(broker.held)
        broker.begin(day)
        charged = [(charge.kind, charge.code, charge.cash_minor) for charge in step.charges]
        assert charged == [
            (kind, codes[asset], amount * 100) for kind, asset, amount in broker.charges
        ], step.filled_on
        changed = [asset for asset in sorted(before) if series[asset].ratios[day] != 1]
        actions = [
            (action.code, action.shares_before, action.shares_after)
            for action in step.corporate_actions
        ]
        remaining = [
            (codes[asset], before[asset] / sizes[asset], broker.held.get(asset, 0) / sizes[asset])
            for asset in changed
        ]
        assert actions == remaining, step.filled_on
        seen["changes"] += len(changed)
        seen["suspended"] += sum(not series[asset].trades(day) for asset in broker.held)
        assert step.open_nav_minor == broker.worth(day, True) * 100, step.filled_on
        orders = [
            (
                place_of.get(order.code),
                order.side,
                None if order.target_weight is None else D(repr(order.target_weight)),
                None
                if order.shares is None
                else order.shares * (sizes[place_of[order.code]] if order.code else D(1)),
            )
            for order in step.orders
        ]
        for order, end in zip(step.orders, broker.trade(day, orders), strict=True):
            seen[f"{order.side} {end.status} {end.rule}"] += 1
            filled = order.filled_shares * (sizes[place_of[order.code]] if order.code else D(1))
            assert (order.status, order.rule, filled) == (end.status, end.rule, end.quantity), (
                step.filled_on,
                order,
            )
            assert (order.notional_minor, order.fee_minor) == (end.notional * 100, end.fee * 100)
            if end.quantity:
                one = series[place_of[order.code]]
                assert order.price_ticks * one.house.tick == one.open_price(day)

            seen["fills"] += bool(end.quantity)
            seen["at limit"] += end.rule == "price_limit"

        worth = {
            asset: cents(held * (series[asset].mark(day) or D(0)))
            for asset, held in broker.held.items()
        }
        held = {row.code: (row.shares, row.locked, row.value_minor) for row in step.positions}
        assert held == {
            codes[asset]: (
                broker.held[asset] / sizes[asset],
                broker.fresh.get(asset, 0) / sizes[asset],
                worth[asset] * 100,
            )
            for asset in worth
        }
        seen["short"] += sum(quantity < 0 for quantity in broker.held.values())
        sums = broker.cash * 100, sum(worth.values()) * 100, broker.worth(day, False) * 100
        assert (step.cash_minor, step.holdings_minor, step.nav_minor) == sums, step.filled_on

    return seen
