"""Volatility and volume of the days up to the decision, against pandas, and without a look ahead."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

from ktdeval.market.snapshots.snapshot import Instrument, MarketSnapshot
from ktdeval.market.venues.execution import Execution
from ktdeval.market.venues.venue import find_venue
from ktdeval.testing import snapshot_of_days
from ktdeval.trading.execution_costs import trailing_sigma_ppb, trailing_volume
from ktdeval.trading.market_tape import MarketTape
from ktdeval.trading.types import TradingConfig
from support.searching import examples

N_DAYS, N_ASSETS = 60, 4


def random_market(draw: np.random.Generator) -> MarketSnapshot:
    """Random walks with gaps, late listings, splits, halts and unknown volumes."""
    shape = (N_DAYS, N_ASSETS)
    walk = np.exp(np.cumsum(draw.normal(0, 0.03, shape), axis=0)) * 40
    split = draw.choice([1.0, 2.0, 0.1, 1.013], shape, p=[0.9, 0.04, 0.02, 0.04])
    factor = np.cumprod(split, axis=0)
    close = np.round(walk / factor, 4)
    close[draw.random(shape) < 0.1] = np.nan
    close[:17, 0] = np.nan
    volume = np.round(draw.lognormal(12, 1, shape))
    volume[draw.random(shape) < 0.1] = 0
    volume[draw.random(shape) < 0.1] = np.nan
    close[20:45, 1] = np.nan
    codes = [f"A{number}" for number in range(N_ASSETS)]
    market = snapshot_of_days(codes, close.tolist(), factor=factor.tolist())
    return dataclasses.replace(market, volume=volume)


@pytest.mark.parametrize("window", [5, 20])
@examples(10)
@given(seed=st.integers(0, 2**32))
def test_figures_are_those_of_pandas(window: int, seed: int) -> None:
    market = random_market(np.random.default_rng(seed))

    closes = pd.DataFrame(market.close * market.factor)
    returns = closes.apply(lambda column: column.dropna().pct_change().reindex(column.index))
    sigma = returns.rolling(window, min_periods=5).std().shift(1).fillna(0) * 1e9
    # returns are counted in 1e-7
    np.testing.assert_allclose(trailing_sigma_ppb(market, window), sigma, rtol=1e-6, atol=120)

    volume = pd.DataFrame(market.volume / market.factor)
    traded = volume.where(volume > 0)
    mean = traded.rolling(window, min_periods=5).mean().shift(1).fillna(0) * market.factor
    np.testing.assert_allclose(trailing_volume(market, window), mean, rtol=1e-12)


def changed_from(market: MarketSnapshot, row: int, draw: np.random.Generator) -> MarketSnapshot:
    """The market with other prices and volumes from a row on, and other factors after it."""
    later = (np.arange(N_DAYS) >= row)[:, None]
    after = (np.arange(N_DAYS) > row)[:, None]
    other = np.exp(draw.normal(0, 1, market.close.shape))
    other[draw.random(other.shape) < 0.2] = np.nan
    scale = np.exp(draw.normal(0, 1, market.close.shape))
    prices = {
        name: np.where(later, getattr(market, name) * other, getattr(market, name))
        for name in ("open", "high", "low", "close", "volume")
    }
    factor = np.where(after, market.factor * scale, market.factor)
    return dataclasses.replace(market, id="", factor=factor, **prices)


@examples(20)
@given(seed=st.integers(0, 2**32), row=st.integers(1, N_DAYS - 1))
def test_figures_of_a_fill_day_know_nothing_of_it_or_later(seed: int, row: int) -> None:
    draw = np.random.default_rng(seed)
    market = random_market(draw)
    other = changed_from(market, row, draw)

    for figures in (trailing_sigma_ppb, trailing_volume):
        np.testing.assert_array_equal(figures(market, 20)[: row + 1], figures(other, 20)[: row + 1])


def test_volatility_of_the_same_day_is_the_same_in_longer_data() -> None:
    """A market that begins earlier or ends later gives the same integers."""
    market = random_market(np.random.default_rng(3))
    whole_sigma = trailing_sigma_ppb(market, 10)
    whole_volume = trailing_volume(market, 10)

    grids = ("open", "high", "low", "close", "volume", "amount", "factor", "member")
    part = dataclasses.replace(
        market,
        id="",
        days=market.days[25:50],
        indices={code: levels[25:50] for code, levels in market.indices.items()},
        **{name: getattr(market, name)[25:50] for name in grids},
    )
    # Column 1 has no close from row 20 to 45, so that its first return is of a day before the part.
    for column in (0, 2, 3):
        np.testing.assert_array_equal(
            trailing_sigma_ppb(part, 10)[12:, column], whole_sigma[37:50, column]
        )
        np.testing.assert_array_equal(
            trailing_volume(part, 10)[12:, column], whole_volume[37:50, column]
        )


def test_bar_of_a_fill_at_the_decision_is_in_the_terms_of_the_fill_day() -> None:
    """A share is split in two overnight: the bar of the decision has half its prices and twice its
    volume.
    """
    venue = dataclasses.replace(find_venue("frictionless"), name="at_close", fill="same_close")
    market = snapshot_of_days(
        ["A"],
        [[96.0], [100.0], [50.0]],
        [[100.0], [100.0], [50.0]],
        factor=[[1.0], [1.0], [2.0]],
        volume=[[1_000.0], [3_000.0], [9_000.0]],
        instruments=(Instrument("stock", "USD", "at_close"),),
        rules={"at_close": venue},
    )
    market = dataclasses.replace(
        market, low=np.array([[90.0], [98.0], [49.0]]), high=np.array([[101.0], [104.0], [51.0]])
    )
    config = TradingConfig(execution=Execution(half_spread_bps=5, inside_bar=True))

    tape = MarketTape.from_snapshot(market, config)

    scale = tape.rules.scales[0]
    days = [tape.day(row).liquidity for row in (1, 2)]
    bars = [
        (day.low_ticks[0] / scale.ticks_per_unit, day.high_ticks[0] / scale.ticks_per_unit)
        for day in days
        if day is not None
    ]
    assert bars == [(90.0, 101.0), (49.0, 52.0)]
    traded = [day.traded[0] / scale.steps_per_unit for day in days if day is not None]
    assert traded == [1_000, 6_000]


def test_volumes_beyond_sixty_two_bits_count_as_the_largest() -> None:
    """Coins of which billions trade: 1e14 coins are 1e22 steps."""
    market = snapshot_of_days(
        ["A"],
        [[1e-7]] * 8,
        volume=[[1e14]] * 8,
        instruments=(Instrument("coin", "USD", "crypto_spot"),),
    )
    tape = MarketTape.from_snapshot(market, TradingConfig(execution="sqrt"))
    day = tape.day(7).liquidity

    assert day is not None
    assert (day.volume[0], day.traded[0]) == (1 << 62, 1 << 62)
