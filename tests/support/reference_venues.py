"""A slow broker for any venue, from the rules alone: Decimal money and Decimal quantities, every figure from the raw bars.

It shares no code and no representation with `ktdeval.trading`. A holding is a Decimal number of shares or coins, below zero when
sold short; what was bought today is kept apart. What `reference_executor` is for A-shares, this is for everything else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal, getcontext

getcontext().prec = 120
CENT, BILLIONTH = Decimal("0.01"), Decimal("0.000000001")
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
    levy_bps: D
    levy_per_unit: D
    levy_most: D | None
    initial: D | None  #: None where there are no shorts
    maintenance: D
    borrow: D


@dataclass
class Series:
    """One asset: prices None without a bar, volume None where it is unknown."""

    house: House
    opens: list[D | None]
    closes: list[D | None]
    volumes: list[int | None]
    factors: list[D]
    members: list[bool]

    def ratio(self, day: int) -> D:
        """The day's factor over that of the day before; moves of up to one part in 100,000 from the last accepted one are none."""
        accepted = [self.factors[0]]
        for factor in self.factors[1 : day + 1]:
            last = accepted[-1]
            accepted.append(last if abs(factor - last) <= D("0.00001") * last else factor)
        return (accepted[day] / accepted[day - 1]).quantize(BILLIONTH, ROUND_HALF_EVEN) if day else D(1)

    def mark(self, day: int) -> D | None:
        return None if day < 0 else self.closes[day] if self.closes[day] is not None else self.reference(day)

    def reference(self, day: int) -> D | None:
        before = self.mark(day - 1)
        if before is None or self.ratio(day) == 1:
            return before
        return (before / self.ratio(day)).quantize(self.house.tick, ROUND_FLOOR)

    def trades(self, day: int) -> bool:
        on = day - 1 if self.house.fill == "same_close" else day
        price = self.opens[on] if self.house.fill == "next_open" else self.closes[on]
        return price is not None and self.volumes[on] != 0 and bool(self.price(day, True))

    def price(self, day: int, trading: bool) -> D | None:
        if not trading or self.house.fill == "same_close":
            return self.reference(day)
        return self.opens[day] if self.house.fill == "next_open" else self.closes[day]

    def open_price(self, day: int) -> D:
        price = self.price(day, self.trades(day))
        return D(0) if price is None else price


@dataclass
class Ending:
    status: str
    rule: str | None
    quantity: D = NOTHING
    notional: D = NOTHING
    fee: D = NOTHING


def cents(amount: D) -> D:
    return amount.quantize(CENT, ROUND_HALF_UP)


def paid_up(amount: D) -> D:
    return amount.quantize(CENT, ROUND_CEILING)


@dataclass
class Broker:
    market: list[Series]
    dates: list[int]
    cash: D
    most_names: int
    most_weight: D
    held: dict[int, D] = field(default_factory=dict)
    fresh: dict[int, D] = field(default_factory=dict)
    charges: list[tuple[str, int, D]] = field(default_factory=list)

    def worth(self, day: int, at_open: bool) -> D:
        prices = [series.open_price(day) if at_open else series.mark(day) or D(0) for series in self.market]
        return self.cash + sum(cents(quantity * prices[asset]) for asset, quantity in self.held.items())

    def fee(self, house: House, quantity: D, notional: D, selling: bool) -> D:
        bps = house.sell_bps if selling else house.buy_bps
        paid = max(paid_up(notional * bps / 10_000 + quantity * house.per_unit), house.minimum)
        if house.maximum_bps is not None:
            paid = min(paid, paid_up(notional * house.maximum_bps / 10_000))
        if not selling:
            return paid
        levy = paid_up(quantity * house.levy_per_unit)
        return (
            paid + paid_up(notional * house.levy_bps / 10_000) + (levy if house.levy_most is None else min(levy, house.levy_most))
        )

    def notional(self, amount: D, selling: bool) -> D:
        return amount.quantize(CENT, ROUND_FLOOR) if selling else paid_up(amount)

    def asked(self, day: int, held: dict[int, D], initial: bool) -> D:
        """Cash that shorts ask for."""
        total = D(0)
        for asset, quantity in held.items():
            house = self.market[asset].house
            if quantity < 0:
                assert house.initial is not None
                percent = house.initial if initial else house.maintenance
                total += cents(cents(-quantity * self.market[asset].open_price(day)) * (1 + percent / 100))
        return total

    def begin(self, day: int) -> None:
        """Everything before the day's orders."""
        self.fresh, self.charges = {}, []
        for asset in sorted(self.held):
            series = self.market[asset]
            if self.held[asset] < 0:
                value = cents(-self.held[asset] * (series.mark(day - 1) or D(0)))
                interest = cents(value * series.house.borrow / 100 * (self.dates[day] - self.dates[day - 1]) / 365)
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
        series, before = self.market[asset], self.held[asset]
        if series.ratio(day) == 1 or not series.mark(day - 1):
            return
        old = series.mark(day - 1) or D(0)
        after = (before * series.ratio(day) / series.house.step).to_integral_value(ROUND_DOWN) * series.house.step
        worth = after * old / series.ratio(day) if series.trades(day) else after * (series.reference(day) or D(0))
        self.cash += cents(before * old) - cents(worth)
        self.put(asset, after)

    def liquidate(self, asset: int, day: int) -> None:
        quantity, series = self.held[asset], self.market[asset]
        notional = self.notional(abs(quantity) * series.open_price(day), quantity > 0)
        fee = self.fee(series.house, abs(quantity), notional, quantity > 0)
        change = (notional if quantity > 0 else -notional) - fee
        self.charges.append(("margin_call", asset, change))
        self.cash += change
        self.put(asset, D(0))

    def put(self, asset: int, quantity: D) -> None:
        self.held.pop(asset, None)
        if quantity:
            self.held[asset] = quantity

    def trade(self, day: int, orders: list[tuple[int | None, str, D | None, D | None]]) -> list[Ending]:
        """Fill orders (asset, side, weight, quantity)."""
        nav = self.worth(day, True)
        ends: dict[int, Ending] = {}
        for wanted_side in ("SELL", "BUY"):
            for place, (asset, side, weight, quantity) in enumerate(orders):
                if side == wanted_side:
                    ends[place] = self.judge(day, asset, side, weight, quantity, nav)
        return [ends[place] for place in range(len(orders))]

    def judge(self, day: int, asset: int | None, side: str, weight: D | None, quantity: D | None, nav: D) -> Ending:
        selling = side == "SELL"
        shorts = asset is not None and self.market[asset].house.initial is not None
        if weight is not None and not (-1 if shorts else 0) <= weight <= 1:
            return Ending("rejected", "schema")
        if asset is None:
            return Ending("rejected", "universe")
        series, have = self.market[asset], self.held.get(asset, D(0))
        house = series.house
        if not selling and have >= 0 and not series.members[day]:
            return Ending("rejected", "universe")
        if selling and not shorts and not have:
            return Ending("rejected", "holding")
        if not series.trades(day):
            return Ending("rejected", "suspended")
        if not selling and not have and len(self.held) >= self.most_names:
            return Ending("rejected", "position_limit")
        price = series.open_price(day)
        if quantity is None:
            assert weight is not None
            target = (weight * nav / price / house.step).to_integral_value(ROUND_DOWN) * house.step
            if target >= have if selling else target <= have:
                return Ending("rejected", "target")
            target = (target / house.lot).to_integral_value(ROUND_DOWN) * house.lot
            quantity = have - target if selling else max(target - have, D(0))
            if not selling and have >= 0:
                quantity = (quantity / house.lot).to_integral_value(ROUND_DOWN) * house.lot
        if selling:
            return self.sell(day, asset, quantity, have, nav)
        return self.buy(day, asset, quantity, have, nav)

    def sell(self, day: int, asset: int, quantity: D, have: D, nav: D) -> Ending:
        series = self.market[asset]
        house, price = series.house, series.open_price(day)
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
            notional = self.notional(sold * price, True)
            fee = self.fee(house, sold, notional, True)
            if self.cash + notional - fee < 0:
                return Ending("rejected", "cash")
            rule = None if sold == quantity else "t_plus_1" if free < have else "holding"
            return self.done(asset, -sold, notional, fee, rule)
        if self.fresh.get(asset):
            return Ending("rejected", "t_plus_1")
        if not series.members[day]:
            return Ending("rejected", "universe")
        if not have and len(self.held) >= self.most_names:
            return Ending("rejected", "position_limit")
        if short * price > self.most_weight * nav:
            return Ending("rejected", "weight_limit")
        if short % house.lot:
            return Ending("rejected", "lot")
        notional = self.notional(quantity * price, True)
        if notional < house.smallest:
            return Ending("rejected", "minimum")
        fee = self.fee(house, quantity, notional, True)
        if self.cash + notional - fee < self.asked(day, {**self.held, asset: -short}, True):
            return Ending("rejected", "margin")
        return self.done(asset, -quantity, notional, fee, None)

    def buy(self, day: int, asset: int, quantity: D, have: D, nav: D) -> Ending:
        series = self.market[asset]
        house, price, after = series.house, series.open_price(day), have + quantity
        if have < 0 < after and not series.members[day]:
            return Ending("rejected", "universe")
        if (after > 0 or have >= 0) and after * price > self.most_weight * nav:
            return Ending("rejected", "weight_limit")
        if quantity <= 0 or (quantity % house.lot and (have >= 0 or after)):
            return Ending("rejected", "lot")
        others = {other: held for other, held in self.held.items() if other != asset}
        cash = self.cash - (self.asked(day, others if have < 0 else self.held, True) if after > 0 else 0)
        if have >= 0 and paid_up(quantity * price) < house.smallest:
            return Ending("rejected", "minimum")

        def paid(amount: D) -> D:
            return paid_up(amount * price) + self.fee(house, amount, paid_up(amount * price), False)

        bought = quantity
        if paid(quantity) > cash:
            if have < 0 < after:
                return Ending("rejected", "cash")
            low, high = 0, int(quantity / house.lot)
            while low < high:
                middle = (low + high + 1) // 2
                low, high = (middle, high) if paid(middle * house.lot) <= cash else (low, middle - 1)
            bought = low * house.lot
            if not bought or (have >= 0 and paid_up(bought * price) < house.smallest):
                return Ending("rejected", "cash")
        fresh = house.locks and have + bought > 0
        if fresh:
            self.fresh[asset] = self.fresh.get(asset, D(0)) + bought + min(have, D(0))
        notional = paid_up(bought * price)
        return self.done(asset, bought, notional, self.fee(house, bought, notional, False), None if bought == quantity else "cash")

    def done(self, asset: int, change: D, notional: D, fee: D, rule: str | None) -> Ending:
        self.cash += (notional if change < 0 else -notional) - fee
        self.put(asset, self.held.get(asset, D(0)) + change)
        return Ending("filled" if rule is None else "partially_filled", rule, abs(change), notional, fee)
