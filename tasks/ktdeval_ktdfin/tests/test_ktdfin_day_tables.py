"""Cached tables of a day: each equals that of a market that ends on the day, whatever comes later,
and its figures match plain arithmetic.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.stats import rankdata

from ktdeval.market import ArrayCache, MarketSnapshot, load_snapshot, save_snapshot
from ktdeval.testing import small_market
from ktdeval.values import whole_groups
from ktdeval_ktdfin.day_context import BREADTH, day_context, sector_names
from ktdeval_ktdfin.market_breadth import SECTORS_SHOWN, sector_tone
from ktdeval_ktdfin.market_day import MarketDay
from ktdeval_ktdfin.tools import _percentile_ranks
from support.searching import examples

MARKET = small_market()
LAST = len(MARKET.days) - 1
LIMITS = np.full(len(MARKET.codes), 100_000)
DAYS = st.integers(0, LAST - 1)


def day_of(market: MarketSnapshot, row: int) -> MarketDay:
    return MarketDay(market.as_of(row), LIMITS)


def tables(day: MarketDay) -> dict[str, Any]:
    closes = day.closes
    return {**day_context(day), **day.dims, "marks": closes.marks, "previous": closes.previous}


def with_other_days_after(market: MarketSnapshot, row: int) -> MarketSnapshot:
    """Return the market with prices, volumes, members and levels that differ after a day."""
    changed: dict[str, Any] = {}
    for field in ("open", "high", "low", "close", "volume", "amount", "factor"):
        values = getattr(market, field).copy()
        values[row + 1 :] *= 3.7
        changed[field] = values

    member = market.member.copy()
    member[row + 1 :] ^= True
    indices = {}
    for code, levels in market.indices.items():
        later = levels.copy()
        later[row + 1 :] = 1.0
        indices[code] = later

    return replace(market, **changed, member=member, indices=indices)


def assert_same_tables(first: MarketDay, second: MarketDay) -> None:
    expected = tables(second)
    for name, values in tables(first).items():
        assert np.array_equal(values, expected[name], equal_nan=True), name


@examples(8, search=60)
@given(row=DAYS)
def test_tables_of_a_day_are_those_of_a_market_with_other_days_after_it(row: int) -> None:
    later = with_other_days_after(MARKET, row)
    assert_same_tables(day_of(MARKET, row), day_of(later, row))


@pytest.mark.exhaustive
def test_tables_that_runs_keep_are_those_computed_from_each_day_alone(tmp_path: Path) -> None:
    save_snapshot(MARKET, tmp_path / "market")
    kept = load_snapshot(tmp_path / "market", ArrayCache(tmp_path / "arrays"))

    for row in (0, 1, 63, 64, 200, LAST):
        assert_same_tables(day_of(kept, row), day_of(MARKET, row))


@pytest.mark.parametrize("row", [0, 25, LAST])
def test_sectors_and_breadth_are_counts_and_plain_means_over_members(row: int) -> None:
    day = day_of(MARKET, row)
    returns = day.dims["return_20d_pct"]
    for index, sector in enumerate(sector_names(MARKET.industries)):
        inside = [name == sector for name in MARKET.industries]
        known = returns[day.member & inside & np.isfinite(returns)]
        members, _, _, mean, _ = day_context(day)["sectors"][index]

        assert members == sum(day.member & inside)
        if len(known):
            assert mean == pytest.approx(sum(known) / len(known), rel=1e-12)
        else:
            assert np.isnan(mean)

    change = day.dims["return_1d_pct"][day.member & day.has_bar].tolist()
    breadth = dict(zip(BREADTH, day_context(day)["breadth"].tolist(), strict=True))
    assert breadth["members"] == day.member.sum()
    assert breadth["advancing"] == sum(value > 0 for value in change)
    assert breadth["declining"] == sum(value < 0 for value in change)


def test_strongest_and_weakest_sectors_have_rows_and_others_have_none() -> None:
    tone = sector_tone(day_of(MARKET, LAST))
    shown = {sector for group in (*tone.strongest, *tone.weakest) for sector in group}

    assert tone.row_of.keys() == shown
    assert len(shown) <= 2 * SECTORS_SHOWN
    assert tone.total == len(set(MARKET.industries))


@examples(40, search=300)
@given(
    values=st.lists(
        st.sampled_from([-1.5, 0.0, 0.25, 3.0, 7.5, 9.0]) | st.floats(-9, 9), min_size=2
    )
)
def test_percentile_ranks_are_mean_ranks_scaled_to_one(values: list[float]) -> None:
    expected = (rankdata(values) - 1) / (len(values) - 1)
    assert _percentile_ranks(np.array(values)).tolist() == expected.tolist()


@examples(20, search=200)
@given(most=st.integers(0, 60), kinds=st.integers(1, 50), seed=st.integers(0, 99))
def test_the_first_groups_of_a_ranking_are_those_of_the_whole_one(
    most: int, kinds: int, seed: int
) -> None:
    day = day_of(MARKET, LAST)
    count = len(MARKET.codes)
    # figures of few kinds alone, so that names are equal in all of them
    keys = np.random.default_rng(seed).integers(0, kinds, count).astype(float)
    day.__dict__["dims"] = {"key": keys}
    everyone = np.ones(count, dtype=bool)

    whole = day.rank_groups([keys], everyone)
    assert day.rank_groups([keys], everyone, most) == list(whole_groups(whole, most))
