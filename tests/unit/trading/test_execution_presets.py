"""Presets of execution give the figures of their sources."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ktdeval.errors import ConfigError
from ktdeval.market import Execution, find_execution, find_venue
from ktdeval.trading import TradingConfig
from ktdeval.trading.execution_costs import (
    Quote,
    execution_terms,
    fill_ticks,
    half_spread_ppb,
)

US = find_venue("us_equity")
DOLLAR = US.ticks_per_unit
SHARE = US.steps_per_unit
#: The reference stock: 40 USD, one million shares a day, 2 % a day
PRICE = 40 * DOLLAR
VOLUME = 1_000_000 * SHARE
SIGMA = 20_000_000


def quote(execution: Execution, **given: int) -> Quote:
    terms = execution_terms(US, TradingConfig(execution=execution))
    assert terms is not None
    figures = {"reference": PRICE, "sigma_ppb": SIGMA, "volume": VOLUME, "low": 0, "high": 0}
    return Quote(unit=US.ticks_per_minor, terms=terms, **(figures | given))


@pytest.mark.parametrize(
    ("figures", "factor"),
    [
        ({}, 1.0),  # the reference stock itself
        ({"volume": VOLUME // 8}, 2.0),  # an eighth of the activity: (1/8)^(-1/3)
        ({"sigma_ppb": 8 * SIGMA}, 4.0),  # 8 times as volatile, and 8^(-1/3) of the spread
        ({"reference": 8 * PRICE}, 0.5),
    ],
)
def test_a_spread_by_liquidity_scales_as_its_source_says(
    figures: dict[str, int], factor: float
) -> None:
    one = quote(find_execution("spread"), **figures)
    assert half_spread_ppb(one) == pytest.approx(821_000 * factor, rel=1e-6)


def test_the_impact_of_one_per_cent_of_a_days_volume_is_that_of_the_source() -> None:
    # Kyle and Obizhaeva 2016: 12.08 bps of 40 USD are 4.832 cents
    one = quote(Execution(impact=0.604, tick=0))
    assert fill_ticks(one, VOLUME // 100, selling=False) == PRICE + 484
    # Four times as much moves it twice as far.
    assert fill_ticks(one, VOLUME // 25, selling=False) == PRICE + 967


def test_two_orders_of_a_day_pay_together_what_one_of_their_size_pays() -> None:
    half = VOLUME // 100
    first = quote(Execution(impact=1, tick=0))
    second = quote(Execution(impact=1, tick=0), same_side=half)
    together = fill_ticks(first, 2 * half, selling=False) * 2

    parts = fill_ticks(first, half, selling=False) + fill_ticks(second, half, selling=False)
    assert parts - together in (-1, 0, 1)  # the price of each order is rounded up to a tick


def test_square_roots_of_sizes_are_those_of_floats() -> None:
    generator = np.random.default_rng(5)
    one = quote(Execution(impact=0.8, tick=0))
    for share in generator.uniform(1e-6, 0.5, 50):
        steps = int(share * VOLUME)
        expected = PRICE * 0.8 * 0.02 * np.sqrt(steps / VOLUME)
        assert fill_ticks(one, steps, selling=False) - PRICE == pytest.approx(expected, abs=1.001)


def test_a_preset_by_liquidity_needs_an_activity_to_compare_with() -> None:
    venue = replace(US, currency="HKD")
    with pytest.raises(ConfigError, match="spread by liquidity needs reference_activity"):
        execution_terms(venue, TradingConfig(execution="sqrt"))


def test_none_is_free_of_size_whatever_the_venue_says() -> None:
    assert execution_terms(US, TradingConfig()) is None
    assert execution_terms(US, TradingConfig(execution="none")) is None
