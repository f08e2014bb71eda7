"""The nine style factors against independent pandas implementations, gap rules, standardisation and batching."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st
from scipy import stats

from accept_figures import nine_factors
from ktdeval.attribution.factors import FACTORS, factor_values, standardise
from ktdeval.errors import DataError
from ktdeval.market.snapshot import MarketSnapshot, SnapshotMeta

NAMES = ("MOM_12_1", "RV_60", "ILLIQ", "REV_ON", "MOM_ID", "SKEW", "CORR_PV", "HIGH_52W", "CV_VOL")


def market(rows: int = 330, assets: int = 12, gap_share: float = 0.0, seed: int = 1) -> MarketSnapshot:
    """A random market; asset 0 has a 2-for-1 split at row 300, asset 1 a dividend; a share of the bars is missing."""
    rng = np.random.default_rng(seed)
    adjusted = 20.0 * np.exp(np.cumsum(rng.standard_t(5, (rows, assets)) * 0.012, axis=0))
    factor = np.ones((rows, assets))
    factor[300:, 0] = 2.0
    factor[290:, 1:2] = 1.03
    close = adjusted / factor
    open_ = close * np.exp(rng.normal(0.0, 0.008, close.shape))
    high = np.maximum(open_, close) * (1.0 + rng.uniform(0.0, 0.01, close.shape))
    low = np.minimum(open_, close) * (1.0 - rng.uniform(0.0, 0.01, close.shape))
    volume = rng.lognormal(13.0, 0.5, close.shape) * factor
    gaps = rng.random(close.shape) < gap_share
    for array in (open_, high, low, close):
        array[gaps] = np.nan
    volume[gaps] = 0.0
    codes = tuple(f"60{column:04d}.SH" for column in range(assets))
    return MarketSnapshot(
        meta=SnapshotMeta("hand", "test", True, True, "INDEX"),
        days=np.datetime64("2022-01-03") + np.arange(rows),
        codes=codes,
        names=codes,
        industries=("x",) * assets,
        open=open_,
        high=high,
        low=low,
        close=close,
        volume=volume,
        amount=np.where(gaps, np.nan, volume * np.where(gaps, 1.0, close)),
        factor=factor,
        member=np.ones(close.shape, dtype=bool),
        indices={"INDEX": np.ones(rows)},
        index_names={"INDEX": "index"},
    )


FIELDS = ("open", "high", "close", "volume", "amount", "factor")


@pytest.mark.parametrize("gap_share", [0.0, 0.05, 0.3], ids=["no gaps", "some gaps", "many gaps"])
@pytest.mark.parametrize("row", [255, 305, 329])
def test_factors_equal_an_independent_pandas_implementation(gap_share: float, row: int) -> None:
    snapshot = market(assets=6, gap_share=gap_share)
    values = factor_values(snapshot.as_of(row)).values
    for asset in range(len(snapshot.codes)):
        expected = nine_factors(pd.DataFrame({name: getattr(snapshot, name)[: row + 1, asset] for name in FIELDS}))
        for name in NAMES:
            np.testing.assert_allclose(values[name][asset], expected[name], rtol=1e-9, atol=1e-12, err_msg=f"{name} asset {asset}")


def test_the_table_of_factors_is_the_papers_and_the_documented_one(repository: Path) -> None:
    assert tuple(definition.name for definition in FACTORS) == NAMES
    lines = (repository / "docs" / "factors.md").read_text().splitlines()
    for definition in FACTORS:
        assert definition.description
        assert 0 < definition.minimum_observations <= definition.window <= 252
        row = next(line for line in lines if line.startswith(f"| {definition.name} |"))
        assert row.endswith(f"| {definition.window} | {definition.minimum_observations} |")
    snapshot = market()
    table = factor_values(snapshot.as_of(300))
    assert tuple(table.values) == NAMES
    assert table.matrix().shape == (9, 12)
    np.testing.assert_array_equal(table.standardised(snapshot.member[300]), standardise(table.matrix(), snapshot.member[300]))


def test_minimum_observations_of_the_table_are_those_that_the_kernels_apply() -> None:
    for definition in FACTORS:
        row, window = 329, definition.window
        most = window - definition.minimum_observations
        for missing, defined in ((most, True), (most + 1, False)):
            snapshot = market(assets=1)
            arrays = {name: getattr(snapshot, name).copy() for name in ("open", "high", "low", "close", "volume", "amount")}
            # The gap ends on `row`: no later bar is measured from it, so exactly `missing` observations are lost.
            for array in arrays.values():
                array[row + 1 - missing : row + 1] = np.nan
            gapped = replace(snapshot, **arrays)
            assert np.isfinite(factor_values(gapped.as_of(row)).values[definition.name][0]) == defined, (definition.name, missing)


def test_a_split_or_dividend_does_not_move_any_factor() -> None:
    plain, split = market(gap_share=0.02), market(gap_share=0.02)
    unsplit = {name: getattr(plain, name) * plain.factor for name in ("open", "high", "low", "close")}
    unsplit |= {"volume": plain.volume / plain.factor, "factor": np.ones_like(plain.factor)}
    plain = replace(plain, **unsplit)
    for name, values in factor_values(split.as_of(305)).values.items():
        np.testing.assert_allclose(values, factor_values(plain.as_of(305)).values[name], rtol=1e-9)


def test_a_name_suspended_for_the_whole_year_but_listed_before_has_no_factor() -> None:
    snapshot = market(rows=600, assets=2)
    arrays = {name: getattr(snapshot, name).copy() for name in ("open", "high", "low", "close")}
    for array in arrays.values():
        array[300:, 0] = np.nan
    halted = replace(snapshot, **arrays)
    values = factor_values(halted.as_of(599)).values
    assert all(np.isnan(values[name][0]) for name in NAMES)
    assert all(np.isfinite(values[name][1]) for name in NAMES)


def test_a_gap_at_the_first_row_of_the_window_uses_the_last_close_before_it() -> None:
    snapshot = market(rows=300, assets=2)
    close = snapshot.close.copy()
    close[40:50, 0] = np.nan
    gapped = replace(snapshot, close=close)
    row = 45 + 251
    expected = gapped.adjusted_close[row - 20, 0] / gapped.adjusted_close[39, 0] - 1.0
    assert factor_values(gapped.as_of(row)).values["MOM_12_1"][0] == pytest.approx(expected, rel=1e-12)


def test_factors_appear_as_soon_as_their_window_holds_enough_days() -> None:
    snapshot = market(rows=260, assets=2)
    known = np.array([np.isfinite(factor_values(snapshot.as_of(row)).matrix()).all(axis=1) for row in range(260)])
    assert known.argmax(axis=0).tolist() == [251, 40, 14, 14, 13, 40, 14, 167, 13]


# ---- exposures


def test_exposures_are_winsorised_z_scores_over_the_investable_names() -> None:
    values, investable = np.random.default_rng(3).standard_t(3, (4, 300)), np.arange(300) < 250
    exposures = standardise(values, investable)
    np.testing.assert_allclose(exposures[:, investable].mean(axis=1), 0.0, atol=1e-12)
    np.testing.assert_allclose(exposures[:, investable].std(axis=1), 1.0, rtol=1e-12)
    values = np.random.default_rng(4).standard_t(3, 301)
    expected = stats.zscore(np.clip(values, *np.quantile(values, [0.01, 0.99])))
    np.testing.assert_allclose(standardise(values, np.ones(301, dtype=bool)), expected, rtol=1e-10)
    # A name outside the index is scaled by the index and does not move it.
    values, investable = np.append(np.random.default_rng(5).normal(size=100), 1e6), np.arange(101) < 100
    exposures = standardise(values, investable)
    np.testing.assert_array_equal(exposures[:100], standardise(values[:100], investable[:100]))
    assert exposures[100] == exposures[:100].max()


def test_what_is_undefined_or_equal_has_no_exposure() -> None:
    values, everyone = np.array([1.0, np.nan, 3.0, 2.0]), np.ones(5, dtype=bool)
    exposures = standardise(values, everyone[:4])
    assert np.isnan(exposures[1])
    np.testing.assert_array_equal(exposures[[0, 2, 3]], standardise(values[[0, 2, 3]], everyone[:3]))
    for equal in (0.1, 0.0):
        np.testing.assert_array_equal(standardise(np.full(5, equal), everyone), np.zeros(5))
    assert np.isnan(standardise(np.arange(5.0), ~everyone)).all(), "no names"
    with pytest.raises(DataError, match="4 assets, investable of 3"):
        standardise(np.arange(4.0), everyone[:3])


@given(st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=40), st.floats(0.01, 100.0), st.floats(-50.0, 50.0))
def test_exposures_do_not_depend_on_unit_or_origin(numbers: list[float], scale: float, shift: float) -> None:
    values = np.round(np.array(numbers), 3)
    everyone = np.ones(len(values), dtype=bool)
    exposures = standardise(values, everyone)
    if np.ptp(values) > 0.01:
        np.testing.assert_allclose(standardise(values * scale + shift, everyone), exposures, atol=1e-5)
