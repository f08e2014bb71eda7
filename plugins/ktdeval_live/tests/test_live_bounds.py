"""Bounds on what missing decisions could have made: by hand, and what holds always."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st

from ktdeval.market import BoolArray, FloatArray, Instrument, MarketSnapshot
from ktdeval.testing.markets import Rows, SnapshotDetails, tiny_snapshot
from ktdeval.trading import AccountConfig, TradingConfig
from ktdeval_live.results.missing_decision_bounds import AccountMoves, are_too_wide, return_bounds

CLOSES: dict[str, list[float | None]] = {
    "AA": [10.0, 10.0, 11.0, 12.0, 12.0],
    "BB": [20.0, 20.0, 18.0, 18.0, 19.0],
}
OPENS: dict[str, list[float | None]] = {
    "AA": [10.0, 10.0, 10.0, 12.1, 12.0],
    "BB": [20.0, 20.0, 20.0, 17.1, 18.0],
}
NIGHTS = np.array([0.003, 0.010, 0.004, 0.005])  # of an account, until the open
DAYS = np.array([0.001, 0.002, 0.020, 0.004])  # of the account, from the open on
IN_CASH = np.zeros((4, 2))
ACCOUNT = AccountMoves((1 + NIGHTS) * (1 + DAYS) - 1, NIGHTS, DAYS, IN_CASH)
GAP_ON_SECOND = np.array([False, True, False, False])


def market(
    closes: Rows = CLOSES, opens: Rows = OPENS, factors: Rows | None = None
) -> MarketSnapshot:
    """Return a market of US stocks."""
    bare = tiny_snapshot(closes, SnapshotDetails(opens=opens, factors=factors or {}))
    return dataclasses.replace(
        bare, instruments=(Instrument("stock", "USD", "us_equity"),) * len(closes)
    )


def rules(**account: object) -> TradingConfig:
    """Return the rules of an account that can't sell short and whose largest weight is a half."""
    fields = {"venue": "crypto_spot", "max_weight": 0.5, **account}
    return AccountConfig(**fields).rules("trading")  # type: ignore[arg-type]


def test_bounds_reach_from_the_open_of_a_gap_to_the_next_open() -> None:
    low, high = return_bounds(market(), rules(), 0, ACCOUNT, GAP_ON_SECOND)
    # day 2, from its open on: A + 10 %, B - 10 %; at most half of it in each
    assert low[1] == pytest.approx(1.010 * (1 - 0.05) - 1)
    assert high[1] == pytest.approx(1.010 * (1 + 0.05) - 1)
    # By the close a half in A has grown to 0.55 of 1.00, if the other half is in B; a half in B has
    # shrunk to 0.45 of 0.95, if the other half is cash. Day 3, until its open: A from 11 to 12.1,
    # B from 18 to 17.1; after it the account's 2 %
    assert low[2] == pytest.approx((1 - 0.05 * 0.45 / 0.95) * 1.020 - 1)
    assert high[2] == pytest.approx((1 + 0.10 * 0.55 / 1.00) * 1.020 - 1)

    # days 1 and 4 are the account's
    for bound in (low, high):
        np.testing.assert_array_equal(bound[[0, 3]], ACCOUNT.whole[[0, 3]])


def test_bounds_of_fills_at_closes_begin_with_the_close_of_the_gap() -> None:
    trading = rules(fill="next_close")
    low, high = return_bounds(market(), trading, 0, ACCOUNT, GAP_ON_SECOND)

    # the orders that are missing would have filled at the close of day 2
    assert low[1] == high[1] == ACCOUNT.whole[1]

    # day 3 whole: A + 10 % until the open and 12 / 12.1 - 1 after it, B - 5 % and then + 5.263 %.
    # At the open a half in A may have become 0.55 of 1.025, and one in B 0.475 of 0.975.
    best_day = 0.475 / 0.975 * (18 / 17.1 - 1)
    worst_day = -0.55 / 1.025 * (1 - 12 / 12.1)

    assert high[2] == pytest.approx(1.05 * (1 + best_day) - 1)
    assert low[2] == pytest.approx(0.975 * (1 + worst_day) - 1)
    assert low[3] == high[3] == ACCOUNT.whole[3]


def test_shorts_tie_up_their_margin() -> None:
    trading = rules(venue="us_equity")
    margin = trading.venue.short.initial_margin_pct / 100  # type: ignore[union-attr]

    assert margin == 0.5

    low, high = return_bounds(market(), trading, 0, ACCOUNT, GAP_ON_SECOND)
    # the best: half in A earns 5 %, and a short of B of a half, for a quarter in cash, 5 % as well
    assert high[1] == pytest.approx(1.010 * 1.10 - 1)
    assert low[1] == pytest.approx(1.010 * 0.90 - 1)


def test_asset_without_a_bar_has_no_part_until_it_trades_again() -> None:
    halted = {**CLOSES, "AA": [10.0, 10.0, None, 12.0, 12.0]}
    opens = {**OPENS, "AA": [10.0, 10.0, None, 12.1, 12.0]}
    low, high = return_bounds(market(halted, opens), rules(), 0, ACCOUNT, GAP_ON_SECOND)

    assert high[1] == ACCOUNT.whole[1]  # B fell, A did not trade: the account's is the greatest
    assert low[1] == pytest.approx(1.010 * 0.95 - 1)
    # half in A, half in B until its close: A is 0.5 of 0.95, and goes from 10 to 12.1
    assert high[2] == pytest.approx((1 + 0.21 * 0.5 / 0.95) * 1.020 - 1)


def test_split_moves_nothing() -> None:
    closes = {**CLOSES, "AA": [10.0, 10.0, 11.0, 6.0, 6.0]}
    opens = {**OPENS, "AA": [10.0, 10.0, 10.0, 6.05, 6.0]}
    split = market(closes, opens, {"AA": [1.0, 1.0, 1.0, 2.0, 2.0]})
    found = return_bounds(split, rules(), 0, ACCOUNT, GAP_ON_SECOND)
    expected = return_bounds(market(), rules(), 0, ACCOUNT, GAP_ON_SECOND)
    np.testing.assert_allclose(found, expected)


def test_account_lies_within_its_bounds_where_its_weights_have_grown() -> None:
    days = DAYS.copy()
    days[1] = 0.09  # all in A, which no order could have reached
    account = AccountMoves((1 + NIGHTS) * (1 + days) - 1, NIGHTS, days, IN_CASH)
    _, high = return_bounds(market(), rules(), 0, account, GAP_ON_SECOND)

    assert high[1] == account.whole[1]


def test_what_is_held_may_have_drifted_beyond_the_largest_weight() -> None:
    # The account holds a half in A before day 1, on which A triples: 1.5 of 2.
    closes = {"AA": [10.0, 30.0, 33.0, 36.3], "BB": [20.0, 20.0, 20.0, 20.0]}
    opens = {"AA": [10.0, 10.0, 30.0, 33.0], "BB": [20.0, 20.0, 20.0, 20.0]}
    nothing = np.zeros(3)
    days = np.array([1.0, 0.75 * 0.10, 0.75 * 1.1 / 1.075 * 0.10])
    held = np.array([[0.75, 0.0], [0.75 * 1.1 / 1.075, 0.0], [0.8, 0.0]])
    account = AccountMoves(days, nothing, days, held)
    missing = np.array([False, True, True])

    low, high = return_bounds(market(closes, opens), rules(), 0, account, missing)
    # Nothing is feasible beyond what is held: to keep A, the best, and to sell it, the worst.
    np.testing.assert_allclose(high, account.whole)
    np.testing.assert_allclose(low, [1.0, 0.0, 0.0])


def test_portfolio_that_may_have_lost_everything_is_unbounded_afterwards() -> None:
    closes = {"AA": [10.0, 10.0, 60.0, 66.0], "BB": [20.0, 20.0, 20.0, 20.0]}
    opens = {"AA": [10.0, 10.0, 10.0, 60.0], "BB": [20.0, 20.0, 20.0, 20.0]}
    still = AccountMoves(np.zeros(3), np.zeros(3), np.zeros(3), np.zeros((3, 2)))
    trading = rules(venue="us_equity")
    missing = np.array([False, True, True])
    low, high = return_bounds(market(closes, opens), trading, 0, still, missing)

    assert low[1] == -1.0  # a short of a half, of an asset that rose to six times its price
    assert np.isinf(high[2])


@pytest.mark.parametrize(
    ("low", "high", "wide"),
    [(-0.2, 0.3, False), (-0.2, 0.31, True), (0.0, np.inf, True), (0.1, 0.1, False)],
)
def test_bounds_are_too_wide_from_fifty_points_on(low: float, high: float, wide: bool) -> None:
    assert are_too_wide(low, high) is wide


# --- whatever could be done lies within the bounds


@dataclass(frozen=True)
class Rules:
    """Limits of a simulated account."""

    largest: float  #: weight that an order reaches
    margin: float  #: of a short; infinite: none
    at_open: bool  #: whether orders fill at opens, else at closes


@dataclass(frozen=True)
class Simulated:
    """An account of random decisions, and random behaviour on the days without one."""

    account: AccountMoves
    #: [T, 2] returns until the open and after it, of the behaviour where a decision is missing that
    #: rules them, else of the account
    parts: FloatArray


def simulated(
    rng: np.random.Generator, moves: FloatArray, missing: BoolArray, rules: Rules
) -> Simulated:
    """Keep an account over [T, 2, N] moves, and another one that acts on missing days, too, and
    knows the next move.
    """
    days, _, count = moves.shape
    account = np.zeros(count)
    other = np.zeros(count)
    parts = np.zeros((days, 2))
    own = np.zeros((days, 2))
    weights = np.zeros((days, count))
    is_ruled = False  # by a missing decision

    for day in range(days):
        for part in (0, 1):
            # Orders fill at the open of their day, or at its close, with which the next night begins.
            due = day if rules.at_open else day - 1
            if due >= 0 and part == (1 if rules.at_open else 0):
                if missing[due]:
                    start = other if is_ruled else account
                    other = filled(rng, start, rules, moves[day, part])
                else:
                    account = filled(rng, account, rules, rng.normal(size=count))

                is_ruled = bool(missing[due])

            own[day, part] = account @ moves[day, part]
            parts[day, part] = (other if is_ruled else account) @ moves[day, part]
            account = account * (1 + moves[day, part]) / (1 + own[day, part])
            other = other * (1 + moves[day, part]) / (1 + other @ moves[day, part])

        weights[day] = account

    whole = (1 + own[:, 0]) * (1 + own[:, 1]) - 1

    return Simulated(AccountMoves(whole, own[:, 0], own[:, 1], weights), parts)


def filled(
    rng: np.random.Generator, held: FloatArray, rules: Rules, liked: FloatArray
) -> FloatArray:
    """Return the weights after orders of some kind, of which the last keeps and buys what is liked."""
    kind = rng.choice(["hold", "sell all", "orders", "liked"])
    if kind == "hold":
        return held

    if kind == "sell all":
        return np.zeros(len(held))

    found = held * rng.choice([0.0, 0.5, 1.0], size=len(held))
    sides = rng.choice([1.0, -1.0, 0.0], size=len(held))
    order = rng.permutation(len(held))

    if kind == "liked":
        found = np.where(held * liked > 0, held, 0.0)
        sides = np.sign(liked)
        order = np.argsort(-np.abs(liked))

    for asset in order:
        if sides[asset] < 0 and np.isinf(rules.margin):
            continue

        target = sides[asset] * rules.largest
        if abs(target) <= abs(found[asset]) or found[asset] * target < 0:
            continue

        cost = 1.0 if target > 0 else rules.margin
        shorts = -found[found < 0].sum()
        tied_up = found[found > 0].sum() + (shorts * rules.margin if shorts else 0.0)
        added = min(abs(target) - abs(found[asset]), max(1.0 - tied_up, 0.0) / cost)
        found[asset] += np.sign(target) * added

    return found


@pytest.mark.exhaustive
@settings(max_examples=400, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    missing=st.lists(st.booleans(), min_size=6, max_size=6),
    has_shorts=st.booleans(),
    at_open=st.booleans(),
    size=st.sampled_from([0.02, 0.1, 0.3]),
    largest=st.sampled_from([0.1, 0.3, 1.0]),
    assets=st.integers(1, 4),
)
def test_any_feasible_behaviour_lies_within_the_bounds(
    seed: int,
    missing: list[bool],
    has_shorts: bool,
    at_open: bool,
    size: float,
    largest: float,
    assets: int,
) -> None:
    rng = np.random.default_rng(seed)
    moves = np.exp(rng.normal(0, size, (6, 2, assets))) - 1
    own = Rules(largest, 0.5 if has_shorts else np.inf, at_open)
    found = simulated(rng, moves, np.array(missing), own)

    for parts in (found.account.until_open, found.account.after_open, found.parts):
        assume((parts > -1).all())  # a short that lost more than everything has no further return

    venue = "us_equity" if has_shorts else "crypto_spot"
    fill = "next_open" if at_open else "next_close"
    trading = rules(venue=venue, fill=fill, max_weight=largest)
    low, high = return_bounds(moving_market(moves), trading, 0, found.account, np.array(missing))
    behaved = (1 + found.parts[:, 0]) * (1 + found.parts[:, 1]) - 1

    assert (low <= behaved + 1e-9).all()
    assert (behaved <= high + 1e-9).all()


def moving_market(moves: FloatArray) -> MarketSnapshot:
    """Return a market of [T, 2, N] moves, with a day before them."""
    closes: dict[str, list[float | None]] = {}
    opens: dict[str, list[float | None]] = {}

    for asset in range(moves.shape[2]):
        close = 100.0
        closes[f"S{asset}"] = [close]
        opens[f"S{asset}"] = [close]
        for night, day in moves[:, :, asset]:
            opens[f"S{asset}"].append(close * (1 + night))
            close *= (1 + night) * (1 + day)
            closes[f"S{asset}"].append(close)

    return market(closes, opens)


returns = st.lists(st.floats(-0.2, 0.2), min_size=4, max_size=4)


@pytest.mark.exhaustive
@settings(max_examples=60, deadline=None)
@given(
    nights=returns,
    days=returns,
    missing=st.lists(st.booleans(), min_size=4, max_size=4),
    venue=st.sampled_from(["us_equity", "crypto_spot"]),
    fill=st.sampled_from(["next_open", "next_close"]),
    max_weight=st.sampled_from([0.1, 0.5, 1.0]),
)
def test_account_is_always_within_bounds_and_they_meet_without_gaps(
    nights: list[float],
    days: list[float],
    missing: list[bool],
    venue: str,
    fill: str,
    max_weight: float,
) -> None:
    until_open = np.array(nights)
    after_open = np.array(days)
    whole = (1 + until_open) * (1 + after_open) - 1
    account = AccountMoves(whole, until_open, after_open, IN_CASH)
    trading = rules(venue=venue, fill=fill, max_weight=max_weight)
    low, high = return_bounds(market(), trading, 0, account, np.array(missing))

    assert (low <= account.whole).all()
    assert (account.whole <= high).all()
    assert (low >= -1).all()

    if not any(missing):
        np.testing.assert_array_equal(low, high)
