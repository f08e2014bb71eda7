"""Days with execution on: what splitting an order saves, what the day's volume leaves, what becomes
of the rest, and that no policy makes money of it.
"""

from __future__ import annotations

import dataclasses
import random
from math import sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from ktdeval.errors import ConfigError
from ktdeval.market.snapshots.snapshot import Instrument
from ktdeval.market.venues.execution import Execution
from ktdeval.market.venues.venue import Shorting, Venue, find_venue
from ktdeval.testing import snapshot_of_days
from ktdeval.trading.daily_settlement import Settlement
from ktdeval.trading.execution_costs import LiquidityTape, execution_terms
from ktdeval.trading.executor import settle
from ktdeval.trading.market_tape import MarketTape
from ktdeval.trading.types import Account, Action, Order, Position, TradingConfig
from support.searching import examples

CASH = 10_000_000
FRICTIONLESS = find_venue("frictionless")
WITH_SHORTS = dataclasses.replace(
    FRICTIONLESS,
    short=Shorting(borrow_pct_a_year=0, initial_margin_pct=50, maintenance_margin_pct=30),
)
WIDE = {"max_positions": 50, "max_weight": 1.0}


def flat_tape(
    execution: Execution | None,
    *,
    n_days: int = 12,
    price: float = 100.0,
    volume: int = 1_000_000,
    sigma: float = 0.02,
    venue: Venue = FRICTIONLESS,
    prices: list[list[float]] | None = None,
    **more: Any,
) -> MarketTape:
    """A market of one asset whose price never moves, with figures of our own."""
    config = TradingConfig(initial_cash=CASH, venue=venue, execution=execution, **WIDE)
    opens = prices or [[price]] * n_days
    market = snapshot_of_days(
        ["A"],
        opens,
        instruments=(Instrument("stock", venue.currency, venue.name),),
        rules={venue.name: venue},
        **more,
    )
    tape = MarketTape.from_snapshot(market, config)
    if execution is None:
        return tape

    scale = tape.rules.scales[0].steps_per_unit
    shape = tape.open_ticks.shape
    figures = LiquidityTape(
        np.full(shape, round(sigma * 1e9)),
        np.full(shape, volume * scale),
        np.full(shape, volume * scale),
        np.array(tape.open_ticks),
        np.array(tape.open_ticks),
        np.zeros(shape, dtype=np.int64),
    )
    return dataclasses.replace(tape, liquidity=figures)


def trade(tape: MarketTape, actions: list[Action]) -> list[Settlement]:
    """Book a list of actions, one a day."""
    account = Account(CASH * tape.rules.minor_per_unit, {})
    booked = []
    for row, action in enumerate(actions, start=1):
        booked.append(settle(account, tape.day(row), action, row - 1))
        account = booked[-1].after
    return booked


def order(side: Any, shares: int, tape: MarketTape, asset: int = 0) -> Order:
    steps = tape.rules.scales[asset].steps_per_unit
    return Order(asset, side, 0.5, "", None, shares * steps)


def bps_paid(booked: list[Settlement], shares: int, price: float = 100.0) -> float:
    """What was paid beyond the price, in basis points of it."""
    paid = sum(outcome.notional_minor for day in booked for _, outcome in day.fills) / 100
    return (paid / (shares * price) - 1) * 10_000


# --- splitting


@pytest.mark.parametrize(
    ("n_days", "permanent", "bps"),
    [
        # 2 % * sqrt(10,000 / 1,000,000) = 20 bps at once
        (1, 0.5, 20.0),
        # of 5,000 each 14.14 bps; half of 14.14 of the 5,000 held: 14.14 and 21.21
        (2, 0.5, 17.678),
        # of 2,500 each 10 bps; half of 10 * sqrt(k) of those held: 10, 15, 17.07 and 18.66
        (4, 0.5, 15.183),
        (4, 0.0, 10.0),
        (10, 0.0, 6.325),
        (10, 0.5, 12.430),
        # All of the impact lasts, and is paid again: two days cost more than one.
        (2, 1.0, 21.213),
    ],
)
def test_order_split_over_days_costs_what_the_formula_says(
    n_days: int, permanent: float, bps: float
) -> None:
    """Q / n a day costs Y * sigma * sqrt(Q / V) * (1 / sqrt(n) + p * sum(sqrt(k)) / n^1.5)."""
    tape = flat_tape(Execution(impact=1.0, permanent=permanent))
    each = (order("BUY", 10_000 // n_days, tape),)

    paid = bps_paid(trade(tape, [each] * n_days), 10_000)

    held = sum(sqrt(k) for k in range(n_days))
    formula = 20.0 * (1 / sqrt(n_days) + permanent * held / n_days**1.5)
    assert paid == pytest.approx(formula, abs=0.01)
    assert paid == pytest.approx(bps, abs=0.01)


@pytest.mark.parametrize("inside_bar", [False, True])
def test_two_orders_of_a_day_pay_no_less_than_one(inside_bar: bool) -> None:
    tape = flat_tape(Execution(impact=1.0, inside_bar=inside_bar))
    high = np.full_like(tape.open_ticks, int(tape.open_ticks[1, 0] * 1.003))
    tape = dataclasses.replace(tape, liquidity=with_arrays(tape.liquidity, high_ticks=high))
    one = trade(tape, [(order("BUY", 40_000, tape),)])
    two = trade(tape, [(order("BUY", 4_000, tape), order("BUY", 36_000, tape))])

    assert bps_paid(two, 40_000) >= bps_paid(one, 40_000) - 0.01


@pytest.mark.parametrize(
    ("held", "side", "prices"),
    [(0, "SELL", [99.8, 99.53333]), (-40_000, "BUY", [100.2, 100.46667])],
)
def test_a_second_order_on_a_short_pays_for_the_impact_of_the_first(
    held: int, side: str, prices: list[float]
) -> None:
    """Alone, 30,000 would cost 34.6 bps; after 10,000: (40,000 * 40 - 10,000 * 20) / 30,000."""
    tape = flat_tape(Execution(impact=1.0), venue=WITH_SHORTS)
    scale = tape.rules.scales[0]
    positions = {0: Position(held * scale.steps_per_unit)} if held else {}
    orders = (order(side, 10_000, tape), order(side, 30_000, tape))

    booked = settle(Account(CASH * 100, positions), tape.day(1), orders, 0)

    paid = [outcome.price_ticks / scale.ticks_per_unit for outcome in booked.outcomes]
    assert paid == pytest.approx(prices, abs=1e-5)


def with_arrays(tape: LiquidityTape | None, **arrays: np.ndarray) -> LiquidityTape:
    assert tape is not None
    known = {name: getattr(tape, name) for name in tape.__struct_fields__}
    return LiquidityTape(**{**known, **arrays})


# --- the day's volume


def test_orders_of_both_sides_share_the_volume_of_a_day() -> None:
    tape = flat_tape(Execution(max_participation=0.1), volume=1_000)
    bought = trade(tape, [(order("BUY", 80, tape),)])[0].after
    day = tape.day(2)

    booked = settle(bought, day, (order("SELL", 70, tape), order("BUY", 70, tape)), 1)

    scale = tape.rules.scales[0].steps_per_unit
    assert [(one.status, one.rule, one.shares // scale) for one in booked.outcomes] == [
        ("filled", None, 70),
        ("partially_filled", "volume", 30),
    ]


@pytest.mark.parametrize(
    ("volume", "status", "rule", "shares"),
    [(1_500, "filled", None, 150), (1_490, "partially_filled", "volume", 100)],
)
def test_odd_lot_is_sold_whole_at_the_volume_cap_and_in_lots_below_it(
    volume: int, status: str, rule: str | None, shares: int
) -> None:
    scale = flat_tape(None).rules.scales[0].steps_per_unit
    in_hundreds = dataclasses.replace(FRICTIONLESS, lot_steps=100 * scale)
    tape = flat_tape(Execution(max_participation=0.1), volume=volume, venue=in_hundreds)
    held = Account(0, {0: Position(150 * scale)})
    booked = settle(held, tape.day(1), (order("SELL", 150, tape),), 0)

    (outcome,) = booked.outcomes
    assert (outcome.status, outcome.rule, outcome.shares // scale) == (status, rule, shares)


def test_margin_call_ends_a_carried_order_to_buy_back() -> None:
    """The call has bought the short back: the rest would open a holding that nobody asked for."""
    config = TradingConfig(
        initial_cash=1_000,
        venue=WITH_SHORTS,
        execution=Execution(max_participation=0.1, rest="carry"),
        **WIDE,
    )
    market = snapshot_of_days(
        ["A"],
        [[100.0], [100.0], [100.0], [190.0], [190.0]],
        volume=[[1_000.0]] * 5,
        instruments=(Instrument("stock", "USD", WITH_SHORTS.name),),
        rules={WITH_SHORTS.name: WITH_SHORTS},
    )
    tape = MarketTape.from_snapshot(market, config)
    scale = tape.rules.scales[0].steps_per_unit
    working = (order("BUY", 40, tape),)
    account = Account(100_000 + 6_000 * 100, {0: Position(-60 * scale)}, working)

    booked = settle(account, tape.day(3), (), 2)

    assert [(one.kind, one.shares // scale) for one in booked.charges] == [("margin_call", 60)]
    assert booked.carried == ()
    assert booked.after.positions == {}


@pytest.mark.parametrize(
    ("execution", "fills"),
    [
        pytest.param(Execution(half_spread_bps=5), True, id="a fixed spread"),
        pytest.param(Execution(half_spread_bps=5, max_participation=1.0), False, id="a cap"),
        pytest.param(Execution(impact=1.0), False, id="impact"),
        pytest.param(
            Execution(half_spread_bps=5, spread="liquidity", reference_activity=1e6),
            False,
            id="a spread by liquidity",
        ),
    ],
)
def test_unknown_volume_rejects_only_what_needs_it(execution: Execution, fills: bool) -> None:
    tape = flat_tape(execution, volume=0, sigma=0.0)
    outcome = trade(tape, [(order("BUY", 100, tape),)])[0].outcomes[0]

    ticks = tape.rules.scales[0].ticks_per_unit
    if fills:
        assert (outcome.status, outcome.price_ticks) == ("filled", 100.05 * ticks)
    else:
        assert (outcome.status, outcome.rule) == ("rejected", "volume")


def test_a_venue_without_execution_fills_at_the_open_beside_one_with_it() -> None:
    with_spread = dataclasses.replace(
        FRICTIONLESS, name="with_spread", execution=Execution(half_spread_bps=5)
    )
    venues = (FRICTIONLESS, with_spread)
    market = snapshot_of_days(
        ["A", "B"],
        [[100.0, 100.0]] * 2,
        instruments=tuple(Instrument("stock", "USD", venue.name) for venue in venues),
        rules={venue.name: venue for venue in venues},
    )
    tape = MarketTape.from_snapshot(market, TradingConfig(initial_cash=CASH, **WIDE))

    booked = trade(tape, [(order("BUY", 100, tape), order("BUY", 100, tape, asset=1))])

    ticks = tape.rules.scales[0].ticks_per_unit
    assert [outcome.price_ticks / ticks for outcome in booked[0].outcomes] == [100.0, 100.05]


def test_newly_listed_asset_fills_once_five_days_are_known() -> None:
    """Days 0 to 5 have five returns: the first fill is on day 6."""
    closes = [[100.0 + (row % 2)] for row in range(9)]
    config = TradingConfig(
        initial_cash=CASH, venue=FRICTIONLESS, execution=Execution(impact=1.0), **WIDE
    )
    market = snapshot_of_days(
        ["A"],
        closes,
        instruments=(Instrument("stock", "USD", FRICTIONLESS.name),),
        rules={FRICTIONLESS.name: FRICTIONLESS},
    )
    tape = MarketTape.from_snapshot(market, config)

    booked = trade(tape, [(order("BUY", 100, tape),)] * 8)

    assert [day.outcomes[0].status for day in booked] == ["rejected"] * 5 + ["filled"] * 3


def test_margin_call_pays_the_spread_where_its_size_cannot_be_priced() -> None:
    execution = Execution(
        half_spread_bps=100, spread="liquidity", reference_activity=1e6, impact=1.0
    )
    tape = flat_tape(execution, venue=WITH_SHORTS, volume=0, sigma=0.0)
    scale = tape.rules.scales[0].steps_per_unit
    account = Account(100 * 100 * 100, {0: Position(-100 * scale)})

    booked = settle(account, tape.day(3), (), 2)

    ticks = tape.rules.scales[0].ticks_per_unit
    assert [(one.kind, one.price_ticks) for one in booked.charges] == [("margin_call", 101 * ticks)]


@pytest.mark.parametrize(
    ("volume", "sigma", "price"),
    [(1_000_000, 0.02, 100.02), (0, 0.02, 100.0), (1_000_000, 0.0, 100.0)],
)
def test_margin_call_pays_the_impact_of_its_size_where_that_is_known(
    volume: int, sigma: float, price: float
) -> None:
    # 2 % * sqrt(100 / 1,000,000) = 2 bps
    tape = flat_tape(Execution(impact=1.0), venue=WITH_SHORTS, volume=volume, sigma=sigma)
    scale = tape.rules.scales[0]
    account = Account(100 * 100 * 100, {0: Position(-100 * scale.steps_per_unit)})

    (charge,) = settle(account, tape.day(3), (), 2).charges

    assert charge.price_ticks / scale.ticks_per_unit == pytest.approx(price, abs=1e-6)


def test_spread_by_liquidity_needs_the_activity_of_its_currency() -> None:
    venue = dataclasses.replace(FRICTIONLESS, currency="HKD")
    config = TradingConfig(execution=Execution(half_spread_bps=5, spread="liquidity"))
    with pytest.raises(
        ConfigError, match=r"unknown in HKD; write the coefficients under trading\.execution"
    ):
        execution_terms(venue, config)


# --- beside no execution


def random_days(chance: random.Random, n_days: int, assets: int) -> list[list[float]]:
    """[days, assets] prices on a random walk, whole cents."""
    walk = np.random.default_rng(chance.randrange(2**32)).normal(0, 0.04, (n_days, assets))
    prices: list[list[float]] = np.round(np.exp(np.cumsum(walk, axis=0)) * 50, 2).tolist()
    return prices


def compare_nav(seed: int) -> bool:
    """Orders in shares, of a size that cash and volume never cut: with execution no close has a
    higher NAV. Returns whether there was any fill.

    Costs are the exception, since a lower notional is charged less. Each is rounded by itself, so
    that a fill that is worth a minor unit less may be charged one less by the commission, by each
    duty, and by each bound of both.
    """
    chance = random.Random(seed)
    name = chance.choice(["a_share", "us_equity", "crypto_spot"])
    codes = ["600001.SH", "688004.SH"] if name == "a_share" else ["A", "B"]
    venue = find_venue(name)
    prices = random_days(chance, 9, 2)
    volumes = [[chance.choice([1e5, 1e7]) for _ in range(2)] for _ in range(9)]
    market = snapshot_of_days(
        codes,
        prices,
        volume=volumes,
        first="2024-06-03",
        instruments=(Instrument("stock", venue.currency, name),) * 2,
        rules={name: venue},
    )
    impact = chance.choice([0.0, 0.604])
    execution = Execution(
        half_spread_bps=chance.choice([2.08, 20.0]),
        impact=impact,
        permanent=0.5 if impact else 0.0,
        inside_bar=chance.random() < 0.3,
        window_days=5,
    )
    config = TradingConfig(
        initial_cash=10**8, board_rules=chance.choice(["paper", "exchange"]), **WIDE
    )
    tapes = [
        MarketTape.from_snapshot(market, dataclasses.replace(config, execution=chosen))
        for chosen in (None, execution)
    ]
    steps = [scale.steps_per_unit for scale in tapes[0].rules.scales]
    accounts = [Account(10**10, {})] * 2
    fills = 0
    for row in range(6, 9):
        action = tuple(
            Order(asset, chance.choice(["BUY", "BUY", "SELL"]), 0.5, "", None, size * steps[asset])
            for asset in (0, 1)
            for size in chance.sample([100, 300, 1_200, 9_900], 2)
        )
        free, costly = (
            settle(account, tape.day(row), action, row - 1)
            for account, tape in zip(accounts, tapes, strict=True)
        )
        assert [one.shares for one in free.outcomes] == [one.shares for one in costly.outcomes]
        fills += sum(one.shares > 0 for one in free.outcomes)
        assert costly.nav_minor <= free.nav_minor + 4 * fills, seed
        accounts = [free.after, costly.after]

    return fills > 0


@examples(30, search=400)
@given(seed=st.integers(0, 2**32))
def test_nav_with_execution_is_no_higher_for_the_same_fills(seed: int) -> None:
    compare_nav(seed)


#: Seeds of long searches: the first thousand of them in CI, the others where all is run
LONG = [range(1_000), pytest.param(range(1_000, 10_000), marks=pytest.mark.exhaustive)]


@pytest.mark.exhaustive
@pytest.mark.parametrize("seeds", LONG, ids=["first", "others"])
def test_nav_with_execution_is_no_higher_in_ten_thousand_plays(seeds: range) -> None:
    assert sum(map(compare_nav, seeds)) > 0.9 * len(seeds)


WHOLE = dataclasses.replace(FRICTIONLESS, lot_steps=100_000 * FRICTIONLESS.steps_per_unit)


@pytest.mark.parametrize(
    ("venue", "execution", "rule"),
    [
        pytest.param(WHOLE, Execution(half_spread_bps=1), "cash", id="no lot is affordable"),
        pytest.param(
            FRICTIONLESS, Execution(max_participation=0.01), "volume", id="volume is short"
        ),
    ],
)
def test_buy_that_execution_cuts_loses_less_of_a_fall(
    venue: Venue, execution: Execution, rule: str
) -> None:
    """The exception: fewer shares of what falls. So NAVs compare only for the same fills."""
    prices = [[100.0], [100.0], [50.0]]
    free, costly = (
        trade(tape, [(order("BUY", 100_000, tape),), ()])
        for tape in (
            flat_tape(chosen, n_days=3, prices=prices, venue=venue) for chosen in (None, execution)
        )
    )

    assert (free[0].outcomes[0].rule, costly[0].outcomes[0].rule) == (None, rule)
    assert costly[-1].nav_minor > free[-1].nav_minor == CASH * 100 // 2


def test_buy_cut_by_cash_in_single_shares_is_no_better_off() -> None:
    """All cash is spent in both, on fewer shares with execution."""
    prices = [[100.0], [100.0], [50.0]]
    navs = []
    for chosen in (None, Execution(half_spread_bps=500)):
        tape = flat_tape(chosen, n_days=3, prices=prices)
        navs.append(trade(tape, [(Order(0, "BUY", 0.5, "", 1.0),), ()])[-1].nav_minor / 100)

    assert navs == pytest.approx([5_000_000, 5_000_000 / 1.05])


# --- attacks


def candidates(chance: random.Random, tape: MarketTape, last: Settlement | None) -> list[Action]:
    """Actions of a policy that acts on what it is shown: what was cut again, the other side of what
    was filled, both sides at once, in parts, and of any size.
    """
    sizes = [1, 37, 900, 20_000, 90_000]
    size = chance.choice(sizes)
    buy, sell = order("BUY", size, tape), order("SELL", size, tape)
    part = order("BUY", max(1, size // 3), tape)
    target = Order(0, "BUY", 0.5, "", chance.choice([0.0, 0.3, 1.0]))
    down = Order(0, "SELL", 0.5, "", chance.choice([-0.5, 0.0, 0.3]))
    made: list[Action] = [(), (buy,), (sell,), (sell, buy), (part, part, part), (target,), (down,)]

    for one, outcome in [] if last is None else last.fills:
        other = "SELL" if one.side == "BUY" else "BUY"
        if outcome.shares:
            made.append((Order(0, other, 0.5, "", None, outcome.shares),))
        if outcome.rule == "volume":
            made.append((on_side(one, other), one))

    return made


def on_side(one: Order, side: Any) -> Order:
    return Order(one.asset, side, 0.5, "", one.target_weight, one.shares)


def attack(seed: int) -> None:
    """Each day the best of all that the policy can think of, judged by what it would come to: on a
    market whose price never moves, none of it makes money.
    """
    chance = random.Random(seed)
    participation = chance.choice([None, 0.05, 0.5])
    impact = chance.choice([0.0, 0.604, 5.0])
    execution = Execution(
        half_spread_bps=chance.choice([0.0, 2.0]),
        impact=impact,
        permanent=chance.choice([0.0, 1.0]) if impact else 0.0,
        max_participation=participation,
        rest=chance.choice(["cancel", "carry"]) if participation else "cancel",
        inside_bar=chance.random() < 0.3,
    )
    # Splits move the price with the factor, so that a share's worth stays.
    factors, price = [1.0], 128.0
    for _ in range(9):
        factors.append(factors[-1] * chance.choice([1.0, 1.0, 1.0, 2.0, 0.5]))
    prices = [[price / factor] for factor in factors]
    tape = flat_tape(
        execution if not execution.is_free else None,
        n_days=10,
        venue=chance.choice([FRICTIONLESS, WITH_SHORTS]),
        volume=chance.choice([0, 5_000, 1_000_000]),
        factor=[[factor] for factor in factors],
        prices=prices,
    )

    account = Account(CASH * 100, {})
    nav = account.cash_minor
    last: Settlement | None = None
    for row in range(1, 10):
        day = tape.day(row)
        tried = [settle(account, day, action, row - 1) for action in candidates(chance, tape, last)]
        assert max(booked.nav_minor for booked in tried) <= nav, (seed, row)
        # Often not the best: money must be put at risk to be made.
        last = chance.choice(tried)
        account = last.after
        nav = last.nav_minor


@examples(20, search=400)
@given(seed=st.integers(0, 2**32))
def test_no_policy_makes_money_of_a_price_that_never_moves(seed: int) -> None:
    attack(seed)


@pytest.mark.exhaustive
@pytest.mark.parametrize("seeds", LONG, ids=["first", "others"])
def test_no_policy_makes_money_in_ten_thousand_attacks(seeds: range) -> None:
    for seed in seeds:
        attack(seed)
