"""Attribution against sums over each fill and each holding by itself, in plain Python: accounts that
are long and short on venues with every fill rule, with margin calls and interest; and what these
accounts have met.

`rounding` is what is left over, so that the lines add up to the return whatever they are. Hence its
size is asserted: half a minor unit for each amount that was rounded.
"""

from __future__ import annotations

import dataclasses
import random
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction

import pytest

from ktdeval.attribution import attribute
from ktdeval.market.snapshots.snapshot import Instrument, MarketSnapshot
from ktdeval.market.venues.venue import Fees, Shorting, Venue, find_venue
from ktdeval.testing import snapshot_of_days
from ktdeval.trading.ledger import ChargeRecord, Ledger, OrderRecord, StepRecord
from ktdeval.trading.market_tape import MarketTape
from ktdeval.trading.types import Account, Action, Order, TradingConfig
from support.figures.stats_play import play

ACCOUNTS = 40
N_DAYS = 12
FILLS = ("next_close", "next_open", "same_close")
#: steps of a share, ticks of a currency unit
SCALES = {"next_open": (1, 100), "next_close": (10_000, 10_000), "same_close": (100, 1_000)}
CODES = tuple(f"{fill.upper()}-{number}" for fill in FILLS for number in range(2))
CONFIG = TradingConfig(initial_cash=20_000, max_positions=6, max_weight=1.0)
Fill = OrderRecord | ChargeRecord
Reach = Counter[tuple[str, str]]


def fill_of(code: str | None) -> str:
    """Return the fill rule of the venue on which a code trades."""
    assert code is not None
    return code.split("-")[0].lower()


def venue_of(fill: str) -> Venue:
    steps, ticks = SCALES[fill]
    short = Shorting(borrow_pct_a_year=40.0, initial_margin_pct=50.0, maintenance_margin_pct=45.0)
    return dataclasses.replace(
        find_venue("frictionless"),
        name=fill,
        steps_per_unit=steps,
        ticks_per_unit=ticks,
        lot_steps=1,
        fill=fill,
        fees=dataclasses.replace(Fees(), buy_bps=7.0, sell_bps=13.0),
        short=short,
    )


VENUES = {fill: venue_of(fill) for fill in FILLS}


def random_market(chance: random.Random) -> MarketSnapshot:
    """Prices in cents, so that no price is rounded to a tick, and no corporate actions."""
    opens = []
    closes = []
    last = [chance.choice((5.0, 20.0, 60.0)) for _ in CODES]
    for _ in range(N_DAYS):
        opened = [round(price * chance.uniform(0.8, 1.25), 2) for price in last]
        last = [round(price * chance.uniform(0.8, 1.25), 2) for price in opened]
        opens.append(opened)
        closes.append(last)

    return snapshot_of_days(
        CODES,
        opens,
        closes,
        instruments=tuple(Instrument("stock", "USD", fill_of(code)) for code in CODES),
        rules=VENUES,
    )


def random_ledger(chance: random.Random, market: MarketSnapshot) -> Ledger:
    """An account that buys and sells short at random, with as much debt as it may have."""

    def strategy(account: Account, row: int) -> Action:
        orders = []
        for asset in range(len(CODES)):
            if chance.random() < 0.5:
                continue

            weight = chance.choice((-0.6, -0.3, -0.1, 0.0, 0.2, 0.4))
            held = account.positions.get(asset)
            worth = 0 if held is None else held.shares
            side = "BUY" if weight > 0 or (weight == 0 and worth < 0) else "SELL"
            orders.append(Order(asset, side, 0.5, "", weight, None))
        return tuple(orders)

    ledger = play(market, strategy, range(N_DAYS - 1), CONFIG)
    return ledger.in_units_of(market, MarketTape.from_snapshot(market, CONFIG).rules)


def price(market: MarketSnapshot, row: int, code: str) -> Fraction:
    return Fraction(str(float(market.close[row, market.asset_index[code]])))


def fills_of(step: StepRecord) -> list[Fill]:
    """Fills of a step: of orders, and of margin calls."""
    fills: list[Fill] = [order for order in step.orders if order.filled_shares]
    fills += [charge for charge in step.charges if charge.kind == "margin_call"]
    return fills


def signed(fill: Fill) -> int:
    """Steps bought, negative if sold."""
    return fill.filled_shares if fill.side == "BUY" else -fill.filled_shares


@dataclasses.dataclass
class Day:
    """Sums of one step, in currency units."""

    held: Fraction = Fraction(0)  #: gain from close to close of what was held
    timing: Fraction = Fraction(0)  #: gain of fills from their price to the close
    fees: Fraction = Fraction(0)
    rounded: int = 0  #: number of amounts that were rounded to a minor unit


def day_of(
    market: MarketSnapshot, row: int, step: StepRecord, held: Mapping[str, int], reach: Reach
) -> Day:
    """Add up one step, fill by fill and holding by holding. `held`: steps at the previous close."""
    day = Day(rounded=2 * len(held) + len(step.positions))
    over_day = dict(held)
    for fill in fills_of(step):
        code = fill.code
        assert code is not None
        rule = fill_of(code)
        steps, ticks = SCALES[rule]
        shares = Fraction(signed(fill), steps)
        day.rounded += 2
        what = "margin call" if isinstance(fill, ChargeRecord) else fill.side
        reach[what, rule] += 1
        if held.get(code, 0) < 0 or (not held.get(code) and fill.side == "SELL"):
            reach[what, "short"] += 1
        else:
            reach[what, "long"] += 1

        if rule == "same_close":
            over_day[code] = over_day.get(code, 0) + signed(fill)
        else:
            paid = Fraction(fill.price_ticks, ticks)
            day.timing += shares * (price(market, row, code) - paid)

    for code, count in over_day.items():
        shares = Fraction(count, SCALES[fill_of(code)][0])
        day.held += shares * (price(market, row, code) - price(market, row - 1, code))

    day.fees -= sum(Fraction(order.fee_minor, 100) for order in step.orders)
    for charge in step.charges:
        paid_minor = charge.fee_minor
        if charge.kind == "borrow":
            paid_minor = -charge.cash_minor
            reach["interest", "short"] += 1
        day.fees -= Fraction(paid_minor, 100)

    return day


def compare(seed: int) -> Reach:
    chance = random.Random(seed)
    market = random_market(chance)
    ledger = random_ledger(chance, market)
    reach: Reach = Counter()
    if not (ledger.nav > 0).all():
        return reach

    found = attribute(ledger, market)
    held: dict[str, int] = {}
    for number, step in enumerate(ledger.steps):
        day = day_of(market, number + 1, step, held, reach)
        nav = Fraction(str(float(ledger.nav[number])))
        where = (seed, number)
        rounding = day.rounded * 0.005 / float(nav)
        assert found.fees[number] == pytest.approx(float(day.fees / nav), abs=1e-12), where
        assert found.timing[number] == pytest.approx(float(day.timing / nav), abs=rounding), where
        assert found.held_return[number] == pytest.approx(float(day.held / nav), abs=rounding), (
            where
        )
        assert abs(found.rounding[number]) <= 3 * rounding + 1e-12, where
        held = {position.code: position.shares for position in step.positions}

    return reach


SIDES = ("BUY", "SELL", "margin call")


def test_each_line_is_the_sum_over_its_fills_and_holdings() -> None:
    reach: Reach = Counter()
    for seed in range(ACCOUNTS):
        reach += compare(seed)

    expected = {(side, met) for side in SIDES for met in (*FILLS, "long", "short")}
    expected.add(("interest", "short"))
    expected.remove(("margin call", "long"))  # called only when all shorts are closed
    assert expected <= reach.keys(), f"never met: {sorted(expected - reach.keys())}"
