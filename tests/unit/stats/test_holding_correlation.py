"""Rank correlation of holdings with the returns that follow: examples by hand, an independent
library, and properties on ledgers that are drawn.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from msgspec.structs import replace
from scipy.stats import norm, rankdata, spearmanr

from ktdeval.cards.fields.returns.rank_correlation import MAX_SKILL
from ktdeval.market.snapshots.snapshot import MarketSnapshot, SnapshotMeta
from ktdeval.stats.betting_bounds import betting_interval, lower_bound
from ktdeval.stats.holding_correlation import (
    ALL_EQUAL,
    ALWAYS_EQUAL,
    NO_NEXT,
    HoldingCorrelation,
    holding_correlation,
)
from ktdeval.testing.ledger_fixtures import INITIAL_CASH_MINOR, ledger_of, step_record
from ktdeval.trading import Ledger, PositionRecord


def market_of(opens: Sequence[Sequence[float]], closes: object = None) -> MarketSnapshot:
    """A market of these opens; closes are the opens unless given."""
    prices = np.array(opens, dtype=float)
    close = prices if closes is None else np.array(closes, dtype=float)
    days, assets = prices.shape
    first = np.datetime64("2024-01-01")

    return MarketSnapshot(
        meta=SnapshotMeta("tiny", "written by hand", True, True, ""),
        days=np.arange(first, first + days),
        codes=tuple(f"{600000 + number}.SH" for number in range(assets)),
        names=tuple(f"Name {number}" for number in range(assets)),
        industries=("unknown",) * assets,
        open=prices,
        high=np.fmax(prices, close),
        low=np.fmin(prices, close),
        close=close,
        volume=np.full(prices.shape, 1e6),
        amount=np.full(prices.shape, 1e7),
        factor=np.ones(prices.shape),
        member=np.isfinite(prices),
        indices={},
        index_names={},
    )


def ledger_with(market: MarketSnapshot, weights: Sequence[Sequence[float]], first: int) -> Ledger:
    """A ledger that holds these weights of NAV after the fills of each day from row `first`."""
    steps = []
    for number, of_day in enumerate(weights):
        row = first + number
        held = []
        for column, weight in enumerate(of_day):
            if weight:
                at_close = np.nan_to_num(
                    market.close[row, column] / market.open[row, column], nan=1.0
                )
                value = round(weight * INITIAL_CASH_MINOR * float(at_close))
                held.append(PositionRecord(market.codes[column], 100, 0, 1, value))

        steps.append(replace(step_record(market, number, row), positions=tuple(held)))

    return ledger_of(steps)


def defined(found: HoldingCorrelation | str) -> HoldingCorrelation:
    assert isinstance(found, HoldingCorrelation), found
    return found


# ---- by hand


def test_an_example_by_hand_across_four_assets() -> None:
    """Day 1: returns +1, +2, +3, +4 %; only the last is held. Ranks held 2, 2, 2, 4; earned 1, 2, 3,
    4. cov = 0.5 * (1.5 + 0.5 - 0.5) + 1.5 * 1.5 = 3, var = 3: 1. Spearman: 3 / sqrt(3 * 5).

    Day 2: returns +4, +3, +2, +1 %; the first two are held at 20 % and 10 %. Ranks held 4, 3, 1.5,
    1.5; earned 4, 3, 2, 1: cov = 1.5 * 1.5 + 0.5 * 0.5 + 0.5 + 1.5 = 4.5, var = 4.5: 1.

    Day 3: returns +1, +2, +3, +4 %; the first is held: -1. Day 4 is the last, and nothing follows.
    """
    up = np.array([1.01, 1.02, 1.03, 1.04])
    opens = [[100.0] * 4, [100.0] * 4]
    for growth in (up, up[::-1], up):
        opens.append(list(np.array(opens[-1]) * growth))
    weights = [[0, 0, 0, 0.1], [0.2, 0.1, 0, 0], [0.1, 0, 0, 0], [0.1, 0, 0, 0]]
    market = market_of(opens)

    found = defined(holding_correlation([ledger_with(market, weights, 1)], market))

    assert (found.over, found.days) == ("assets", 3)
    assert found.value == pytest.approx((1 + 1 - 1) / 3, abs=1e-12)
    plain = (3 / np.sqrt(15) + 4.5 / np.sqrt(4.5 * 5) - 3 / np.sqrt(15)) / 3
    assert found.spearman == pytest.approx(plain, abs=1e-12)


def test_an_example_by_hand_of_three_assets_over_four_days() -> None:
    """The history of each asset has 20 falls of 1 %. Then each rises: 1 above all. The weights of
    the first five days are 10 %; those of days 6 to 9 are, for three assets,

        20, 10, 10    ranks 1, 0, 0            the first alone differs from its earlier weights
        20, 10,  0    ranks 5/6, 0, -1         20 above five of six
        20, 10, 10    ranks 5/7, 0, 1/7        above the 0
        the last day, which nothing follows

    Returns after them: +1 % each on the first two days, -5 %, below all, on the third.
    """
    falls = [100.0 * 0.99**day for day in range(22)]
    prices = [*falls, *(falls[-1] * 0.99**day for day in range(1, 6))]
    prices += [prices[-1] * 1.01]
    prices += [prices[-1] * 1.02]
    prices += [prices[-1] * 0.95]
    market = market_of([[price] * 3 for price in prices])
    early = [[0.1, 0.1, 0.1]] * 5
    late = [[0.2, 0.1, 0.1], [0.2, 0.1, 0.0], [0.2, 0.1, 0.1], [0.2, 0.1, 0.1]]
    first = len(prices) - 9
    products = np.array([1.0, 5 / 6 - 1, -(5 / 7 + 1 / 7)]) / 3
    squares = np.array([1.0, 25 / 36 + 1, 26 / 49]) / 3

    found = defined(holding_correlation([ledger_with(market, early + late, first)], market))

    assert (found.over, found.days, found.spearman) == ("days", 3, None)
    assert found.value == pytest.approx(products.sum() / squares.sum(), abs=1e-12)


def test_a_days_own_rise_is_not_foreseen_by_what_is_held() -> None:
    """Equal weights at the fills differ at the close by the day's rise, which is part of the return
    to the next fills.
    """
    rng = np.random.default_rng(1)
    opens = [[100.0] * 10]
    closes = []
    for _ in range(6):
        closes.append(np.array(opens[-1]) * np.exp(rng.normal(0, 0.05, 10)))
        opens.append(list(closes[-1]))
    market = market_of(opens[:-1], closes)
    ledger = ledger_with(market, [[0.1] * 10] * 5, 1)
    values = {position.value_minor for position in ledger.steps[0].positions}

    assert len(values) == 10
    assert holding_correlation([ledger], market) == ALL_EQUAL


def test_what_is_not_defined_is_said() -> None:
    rng = np.random.default_rng(0)
    many = market_of(np.exp(rng.normal(0, 0.01, (40, 5))).cumprod(axis=0) * 100)
    one = market_of(np.exp(rng.normal(0, 0.01, (40, 1))).cumprod(axis=0) * 100)

    assert holding_correlation([ledger_with(many, [[0.1] * 5], 5)], many) == NO_NEXT
    assert holding_correlation([ledger_with(many, [[0.0] * 5] * 9, 5)], many) == ALL_EQUAL
    assert holding_correlation([ledger_with(one, [[0.5]] * 9, 25)], one) == ALWAYS_EQUAL
    assert holding_correlation([ledger_with(one, [[0.5], [0.1]] * 5, 2)], one) == ALWAYS_EQUAL


def test_prices_after_the_last_fills_are_not_read() -> None:
    rng = np.random.default_rng(0)
    prices = np.exp(rng.normal(0, 0.01, (12, 5))).cumprod(axis=0) * 100
    weights = rng.uniform(0, 0.2, (8, 5))
    market = market_of(prices)
    changed = market_of(np.concatenate([prices[:10], prices[10:] * rng.uniform(1, 2, (2, 5))]))

    found = holding_correlation([ledger_with(market, weights, 2)], market)

    assert found == holding_correlation([ledger_with(changed, weights, 2)], changed)


def test_an_asset_without_a_price_on_the_next_day_is_left_out() -> None:
    rng = np.random.default_rng(0)
    prices = np.exp(rng.normal(0, 0.01, (4, 5))).cumprod(axis=0) * 100
    weights = [[0.1, 0.2, 0.05, 0.0, 0.15]] * 2
    prices[2, 4] = np.nan
    suspended = market_of(prices)
    without = market_of(prices[:, :4])
    four = [row[:4] for row in weights]

    found = holding_correlation([ledger_with(suspended, weights, 1)], suspended)

    assert found == holding_correlation([ledger_with(without, four, 1)], without)


def test_episodes_on_the_same_days_count_once() -> None:
    rng = np.random.default_rng(0)
    market = market_of(np.exp(rng.normal(0, 0.01, (30, 6))).cumprod(axis=0) * 100)
    ledger = ledger_with(market, rng.uniform(0, 0.1, (20, 6)), 5)

    once = holding_correlation([ledger], market)

    assert holding_correlation([ledger] * 7, market) == once


# ---- an independent library


def test_spearman_agrees_with_scipy_on_a_random_ledger() -> None:
    rng = np.random.default_rng(7)
    market = market_of(np.exp(rng.normal(0, 0.02, (40, 30))).cumprod(axis=0) * 100)
    weights = np.where(rng.random((30, 30)) < 0.3, rng.integers(1, 9, (30, 30)) / 100, 0.0)
    rows = np.arange(5, 34)
    returns = market.open[rows + 1] / market.open[rows] - 1
    pairs = list(zip(weights[:-1], returns, strict=True))
    plain = [spearmanr(held, earned).statistic for held, earned in pairs]
    highest = [spearmanr(np.sort(held), np.arange(30)).statistic for held, _ in pairs]

    found = defined(holding_correlation([ledger_with(market, weights, 5)], market))

    assert found.spearman == pytest.approx(np.mean(plain), abs=1e-12)
    assert found.value == pytest.approx(np.mean(np.array(plain) / highest), abs=1e-12)


# ---- properties


REACHED = {"assets": 0, "days": 0, "undefined": 0, "ties": 0}


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10_000),
    assets=st.integers(1, 8),
    steps=st.integers(1, 12),
    levels=st.integers(1, 4),
    gaps=st.booleans(),
)
def test_figures_are_bounded_and_turn_with_the_holdings(
    seed: int, assets: int, steps: int, levels: int, gaps: bool
) -> None:
    rng = np.random.default_rng(seed)
    prices = np.round(np.exp(rng.normal(0, 0.01, (40, assets))).cumprod(axis=0) * 10, 1)
    if gaps:
        prices[rng.random(prices.shape) < 0.1] = np.nan
    market = market_of(prices)
    weights = rng.integers(0, levels + 1, (steps, assets)) / 20

    found = holding_correlation([ledger_with(market, weights, 26)], market)
    turned = holding_correlation([ledger_with(market, -weights, 26)], market)

    if isinstance(found, str):
        REACHED["undefined"] += 1
        assert turned == found
        return

    REACHED[found.over] += 1
    REACHED["ties"] += levels < assets
    other = defined(turned)
    low, high = found.interval.low, found.interval.high
    assert low is not None
    assert high is not None
    assert -1 <= found.floor <= low <= found.value <= high <= 1
    assert other.value == pytest.approx(-found.value, abs=1e-12)
    assert other.interval.low == pytest.approx(-high, abs=1e-12)


def test_the_property_reached_every_case() -> None:
    assert min(REACHED.values()) >= 10, REACHED


# ---- bounds


def test_a_bound_at_the_true_mean_fails_as_rarely_as_it_says() -> None:
    """Skewed days, some of which depend on the day before, with mean 0.15."""
    rng = np.random.default_rng(3)
    misses = 0
    for _ in range(400):
        up = rng.random(60) < 0.9
        days = np.where(up, 0.15 + 0.85 / 9 * rng.random(60) * 2, 0.15 - 0.85)
        misses += lower_bound(days, np.ones(60), np.ones(60), 0.95) > 0.15

    assert misses <= 20  # 5 % of 400


def test_no_days_exclude_nothing() -> None:
    nothing = np.empty(0)
    assert betting_interval(nothing, nothing, nothing) == (-1.0, 1.0)


def test_the_wealth_of_one_day_by_hand() -> None:
    """One day at 1 and one stake c: the bound m at which 1 + c (1 - m) / (1 + m) is 1 / alpha. With
    level 0.2, alpha is 0.8: the mean over the stakes of the gain is 0.25.
    """
    one = np.ones(1)
    found = lower_bound(one, one, one, 0.2)
    mean_stake = np.mean([1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 3 / 4, 15 / 16])
    ratio = 0.25 / mean_stake  # of 1 - m to 1 + m, or to 1 - m + 2 m for a slope above 0

    assert found == pytest.approx((1 - ratio) / (1 + ratio), abs=1e-12)


# ---- who is caught

WINDOWS = tuple(range(70, 500, 43))
"""First rows of ten windows of 43 days."""


@pytest.fixture(scope="module")
def fifty_stocks() -> MarketSnapshot:
    """500 days of fifty stocks with a common factor, fat tails and quiet and wild months."""
    rng = np.random.default_rng(11)
    wild = np.repeat(rng.uniform(0.5, 2.0, 25), 20)[:, None]
    common = 0.008 * wild * rng.standard_t(4, (500, 1))
    own = 0.015 * wild * rng.standard_t(4, (500, 50))
    return market_of(np.exp((common * rng.uniform(0.5, 1.5, 50) + own).cumsum(axis=0)) * 20)


def account(market: MarketSnapshot, first: int, scores: np.ndarray, names: int = 5) -> Ledger:
    """A ledger of 43 days that holds the names with the highest scores of each day."""
    best = np.argsort(-scores, axis=1)[:, :names]
    weights = np.zeros((43, 50))
    np.put_along_axis(weights, best, 0.1, axis=1)
    return ledger_with(market, weights.tolist(), first)


def next_returns(market: MarketSnapshot, first: int) -> np.ndarray:
    rows = np.arange(first, first + 43)
    return np.asarray(market.open[np.minimum(rows + 1, 499)] / market.open[rows] - 1)


@pytest.mark.parametrize("names", [1, 5, 25])
def test_who_knows_the_next_returns_is_caught_in_ten_of_ten_windows(
    fifty_stocks: MarketSnapshot, names: int
) -> None:
    """Plain Spearman could not catch one name: it is at most 0.24 of fifty, and 0.10 of 300."""
    caught = 0
    for first in WINDOWS:
        ledger = account(fifty_stocks, first, next_returns(fifty_stocks, first), names)
        caught += defined(holding_correlation([ledger], fifty_stocks)).floor > MAX_SKILL

    assert caught == len(WINDOWS) == 10


@pytest.mark.parametrize("skill", [0.0, 0.05, 0.1])
def test_a_plausible_skill_and_none_are_never_caught(
    fifty_stocks: MarketSnapshot, skill: float
) -> None:
    rng = np.random.default_rng(5)
    caught = []
    values = []
    for _ in range(10):
        ledgers = []
        for first in WINDOWS:
            ranks = rankdata(next_returns(fifty_stocks, first), axis=1)
            noise = rng.normal(size=ranks.shape)
            scores = skill * norm.ppf(ranks / 51) + np.sqrt(1 - skill**2) * noise
            ledgers.append(account(fifty_stocks, first, scores))

        found = defined(holding_correlation(ledgers, fifty_stocks))
        caught.append(found.floor > MAX_SKILL)
        values.append(found.value)

    assert sum(caught) == 0
    assert np.mean(values) == pytest.approx(1.25 * skill, abs=0.03)  # the best are skill's tail


def test_one_asset_is_caught_over_days(fifty_stocks: MarketSnapshot) -> None:
    """It holds half of NAV before each rise, and nothing before each fall."""
    one = market_of(fifty_stocks.open[:, :1])
    ledgers = []
    for first in WINDOWS:
        knows = next_returns(fifty_stocks, first)[:, :1] > 0
        ledgers.append(ledger_with(one, np.where(knows, 0.5, 0.0).tolist(), first))

    found = defined(holding_correlation(ledgers, one))

    assert found.over == "days"
    assert found.value > 0.9
    assert found.floor > MAX_SKILL


def test_buying_after_falls_gives_no_correlation_over_days_by_arithmetic() -> None:
    """A weight that falls with the price. On prices without memory, ranks within the episode would
    give it 0.2 on average; over 100 accounts of 43 days, these give 0.
    """
    rng = np.random.default_rng(2)
    values = []
    plain = []
    for _ in range(100):
        prices = np.exp(rng.normal(0, 0.01, 120).cumsum()) * 100
        market = market_of(prices[:, None])
        own = prices[70:113]
        weights = 0.5 - 0.4 * (own - own.min()) / np.ptp(own)  # which knows the range, as ranks do
        returns = own[1:] / own[:-1] - 1
        plain.append(spearmanr(weights[:-1], returns).statistic)
        found = holding_correlation([ledger_with(market, weights[:, None].tolist(), 70)], market)
        values.append(defined(found).value)

    assert np.mean(plain) > 0.15
    assert abs(np.mean(values)) < 0.06
