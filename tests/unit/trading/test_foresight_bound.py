"""What perfect foresight earns at most: by hand, against every account of tiny markets, and against
traders at random under the rules of every venue.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from foresight_bound import foresight_bound

from ktdeval.errors import UsageError
from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.market.venues.venue import Fees, Shorting, find_venue
from ktdeval.task_api import Window
from ktdeval.testing import snapshot_of_days
from ktdeval.trading import Account, Action, Order, TradingConfig
from ktdeval.trading.daily_settlement import nav_minor, open_account
from ktdeval.trading.executor import settle
from ktdeval.trading.market_tape import MarketTape
from support.market.trading_market import CODES

FREE = TradingConfig(
    buy_fee_bps=0.0,
    sell_fee_bps=0.0,
    min_fee_cny=0.0,
    lot_shares=1,
    star_min_shares=1,
    max_positions=1,
    max_weight=1.0,
)
TWO = (CODES["main2"], CODES["main"])


def bound(market: MarketSnapshot, rules: TradingConfig) -> float:
    """The bound over all days of a market but the first, which only decides."""
    return foresight_bound(market, whole(market), rules)


def whole(market: MarketSnapshot) -> Window:
    return Window("all", str(market.days[1]), str(market.days[-1]))


def played(
    market: MarketSnapshot, rules: TradingConfig, actions: Sequence[Action]
) -> tuple[float, int]:
    """The total return of an account that the engine settles, one action a fill day; its fills."""
    tape = MarketTape.from_snapshot(market, rules)
    account = open_account(rules, tape.rules.minor_per_unit)
    initial = account.cash_minor
    fills = 0
    for row, action in enumerate(actions, start=1):
        settled = settle(account, tape.day(row), action, row - 1)
        account = settled.after
        fills += sum(outcome.shares > 0 for outcome in settled.outcomes)

    last = tape.day(len(actions))
    return nav_minor(account, last.close_ticks, last.rules.units) / initial - 1.0, fills


# ---- by hand


def market_of_two() -> MarketSnapshot:
    """Opens of two stocks: the first gains 5 % on the first fill day, the second 8 % on the next."""
    return snapshot_of_days(
        TWO,
        opens=[[10.0, 20.0], [10.0, 20.0], [10.5, 20.0], [10.5, 21.6]],
        closes=[[10.0, 20.0], [10.0, 20.0], [10.5, 20.0], [10.5, 21.6]],
    )


def test_without_costs_the_bound_is_the_best_stock_of_each_day() -> None:
    assert bound(market_of_two(), FREE) == pytest.approx(1.05 * 1.08 - 1.0, abs=1e-6)


def test_half_the_weight_earns_half_of_the_best_and_half_of_the_second() -> None:
    rules = replace(FREE, max_weight=0.5, max_positions=2)
    fell = replace(market_of_two(), id="")

    assert bound(fell, rules) == pytest.approx(1.025 * 1.04 - 1.0, abs=2e-3)
    assert bound(fell, rules) >= 1.025 * 1.04 - 1.0


def test_costs_are_paid_for_each_change() -> None:
    """Two buys and a sale at 10 basis points: a(2) = 1.08 - 0.001, since the second is bought last;
    a(1) = a(2) * (1.05 - 0.001) - 0.001 * 1.05, since the first was sold.
    """
    rules = replace(FREE, buy_fee_bps=10.0, sell_fee_bps=10.0)
    by_hand = 1.079 * 1.049 - 0.00105 - 1.0

    assert bound(market_of_two(), rules) == pytest.approx(by_hand, abs=1e-6)
    assert by_hand >= 1.05 * 1.08 * 0.999 / 1.001**2 - 1.0


@pytest.mark.parametrize("why", ["no member", "suspended", "upper limit"])
def test_what_cannot_be_bought_earns_nothing(why: str) -> None:
    market = market_of_two()
    if why == "no member":
        member = market.member.copy()
        member[2, 1] = False
        market = replace(market, id="", member=member)
    if why == "suspended":
        volume = market.volume.copy()
        volume[2, 1] = 0.0
        market = replace(market, id="", volume=volume)
    if why == "upper limit":
        opens = market.open.copy()
        opens[2:, 1] *= 1.098
        closes = market.close.copy()
        closes[2, 1] *= 1.098
        closes[3, 1] *= 1.098
        market = replace(market, id="", open=opens, high=opens * 1.2, close=closes)

    # the second stock could still be bought one fill day earlier, in the place of the first
    first_then_cash = 0.05
    second_early = market.close[3, 1] / market.open[1, 1] - 1.0
    assert bound(market, FREE) == pytest.approx(max(first_then_cash, second_early), abs=1e-6)


def test_a_short_earns_a_fall() -> None:
    rules = TradingConfig(venue=find_venue("unrestricted_cny"), max_positions=1, max_weight=1.0)
    falling = snapshot_of_days(TWO, opens=[[10.0, 20.0], [10.0, 20.0], [9.0, 20.0]])

    assert bound(falling, rules) == pytest.approx(0.1, abs=1e-4)


def test_orders_with_limits_are_refused() -> None:
    rules = replace(FREE, limit_orders=True)
    with pytest.raises(UsageError, match="does not cover limit orders"):
        bound(market_of_two(), rules)


# ---- every account of tiny markets


def random_market(seed: int, days: int, assets: int) -> MarketSnapshot:
    """Opens and closes at random, with an ex-day, a suspension, an upper limit and a leaver."""
    chance = np.random.default_rng(seed)
    names = sorted(list(CODES.values())[:assets])
    steps = chance.normal(0.0, 0.04, (2 * days, assets)).clip(-0.09, 0.11)
    path = np.round(20.0 * np.exp(np.cumsum(steps, axis=0)), 2)
    factor = np.ones((days, assets))
    factor[days // 2 :, 0] = 1.03
    volume = np.full((days, assets), 1e6)
    volume[chance.integers(1, days), chance.integers(assets)] = 0.0
    member = np.ones((days, assets), dtype=bool)
    member[chance.integers(1, days) :, chance.integers(assets)] = False
    return snapshot_of_days(
        names,
        opens=path[0::2].tolist(),
        closes=path[1::2].tolist(),
        factor=factor.tolist(),
        volume=volume.tolist(),
        member=member.tolist(),
    )


def every_action(assets: int, targets: Sequence[float]) -> Iterator[Action]:
    """Each asset sold whole, left, or bought to one of the targets."""
    for chosen in product((None, 0.0, *targets), repeat=assets):
        orders = []
        for asset, target in enumerate(chosen):
            if target is not None:
                side = "SELL" if target == 0.0 else "BUY"
                orders.append(Order(asset, side, 0.5, "", target))

        yield tuple(orders)


def best_account(
    tape: MarketTape, account: Account, row: int, actions: Sequence[Action]
) -> tuple[int, int]:
    """The largest final NAV of all accounts, and how many accounts there were."""
    day = tape.day(row)
    if row == len(tape.open_ticks) - 1:
        navs = [settle(account, day, action, row - 1).nav_minor for action in actions]
        return max(navs), len(navs)

    best = count = 0
    for action in actions:
        nav, below = best_account(
            tape, settle(account, day, action, row - 1).after, row + 1, actions
        )
        best = max(best, nav)
        count += below

    return best, count


def test_no_account_of_a_tiny_market_exceeds_the_bound() -> None:
    """All accounts of 12 markets of two stocks and three fill days, under four sets of rules."""
    accounts = 0
    tightness = []
    for seed in range(12):
        market = random_market(seed, 4, 2)
        weight = (1.0, 0.5, 0.4, 0.3)[seed % 4]
        fee = (0.0, 5.0, 15.0)[seed % 3]
        rules = replace(
            FREE, max_weight=weight, max_positions=2, buy_fee_bps=fee, sell_fee_bps=3 * fee
        )
        tape = MarketTape.from_snapshot(market, rules)
        actions = list(every_action(2, (weight, weight / 2)))
        start = open_account(rules)
        best, count = best_account(tape, start, 1, actions)
        highest = bound(market, rules)
        earned = best / start.cash_minor - 1.0

        assert earned <= highest, (seed, earned, highest)

        accounts += count
        tightness.append((1.0 + earned) / (1.0 + highest))

    assert accounts == 12 * 16**3
    assert np.mean(tightness) > 0.99  # a bound that says something


# ---- traders at random


US_MARGIN = replace(
    find_venue("unrestricted_cny"),
    fees=Fees(buy_bps=5.0, sell_bps=5.0),
    short=Shorting(borrow_pct_a_year=0.5, initial_margin_pct=50.0, maintenance_margin_pct=30.0),
)
VENUES = {
    "A-shares": TradingConfig(max_positions=4),
    "one name": TradingConfig(max_positions=1),
    "shorts without margin": TradingConfig(max_positions=4, venue=find_venue("unrestricted_cny")),
    "shorts on margin": TradingConfig(max_positions=4, venue=US_MARGIN),
}


@pytest.mark.parametrize("venue", VENUES)
def test_no_trader_at_random_exceeds_the_bound(venue: str) -> None:
    """200 markets a venue: orders at random, in half of them mostly for what rises until the next
    open.
    """
    fills = gains = 0
    for seed in range(200):
        market = random_market(seed, 9, 5)
        weight = (1.0, 0.5, 0.25, 0.1)[seed % 4]
        rules = replace(VENUES[venue], max_weight=weight)
        greed = 0.95 * ((seed // 4) % 2)
        actions = trader_at_random(market, seed, greed, shorts="shorts" in venue)
        earned, filled = played(market, rules, actions)

        assert earned <= bound(market, rules), seed

        fills += filled
        gains += earned > 0.0

    assert fills > 750
    assert gains > 75  # the accounts come near enough to mean something


def trader_at_random(market: MarketSnapshot, seed: int, greed: float, shorts: bool) -> list[Action]:
    """An action for each day but the first."""
    chance = np.random.default_rng(seed)
    n_days, assets = market.open.shape
    adjusted = np.concatenate([market.open, market.close[-1:]]) * np.concatenate(
        [market.factor, market.factor[-1:]]
    )
    actions = []
    for row in range(1, n_days):
        rise = adjusted[row + 1] / adjusted[row] - 1.0
        orders = []
        for asset in range(assets):
            weight = float(chance.choice([0.0, 0.1, 0.25, 0.5, 1.0]))
            rises = bool(chance.random() < 0.5)
            if chance.random() < greed:
                rises = bool(rise[asset] > 0.0)
                weight = 1.0

            if not rises:
                weight = -weight if shorts else 0.0
            orders.append(Order(asset, "BUY" if rises else "SELL", 0.5, "", weight))

        chance.shuffle(orders)
        actions.append(tuple(orders))

    return actions


def test_orders_sized_at_the_decision_may_weigh_more() -> None:
    market = random_market(7, 9, 5)
    rules = TradingConfig(max_weight=0.25, max_positions=4)
    plain = foresight_bound(market, whole(market), rules)

    assert foresight_bound(market, whole(market), rules, digits=3) > plain
