"""The nine style factors against independent pandas implementations, gap rules and standardisation;
the batched panel against the daily kernels, and the exposures that regressions use.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats
from statsmodels.stats.outliers_influence import variance_inflation_factor

from ktdeval.attribution.asset_exposures import exposures, variance_inflation, vif_screen
from ktdeval.attribution.style_factor_panel import FACTOR_NAMES, factor_history, factor_panel
from ktdeval.attribution.style_factors import (
    FACTORS,
    FactorDefinition,
    factor_values,
    filled_forward,
    standardise,
    trailing_count,
    trailing_maximum,
    trailing_sum,
)
from ktdeval.errors import DataError
from ktdeval.market.snapshots.snapshot import MarketSnapshot, SnapshotMeta
from ktdeval.testing import not_empty
from support.accept.accept_figures import nine_factors

NAMES = ("MOM_12_1", "RV_60", "ILLIQ", "REV_ON", "MOM_ID", "SKEW", "CORR_PV", "HIGH_52W", "CV_VOL")


def market(
    rows: int = 330, assets: int = 12, gap_share: float = 0.0, seed: int = 1
) -> MarketSnapshot:
    """A random market; asset 0 has a 2-for-1 split at row 300, asset 1 a dividend; a share of the
    bars is missing.
    """
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


PRICES = ("open", "high", "low", "close")
FIELDS = (*PRICES, "volume", "amount", "factor")


@pytest.mark.parametrize("gap_share", [0.0, 0.05, 0.3], ids=["no gaps", "some gaps", "many gaps"])
@pytest.mark.parametrize("row", [255, 305, 329])
def test_factors_equal_an_independent_pandas_implementation(gap_share: float, row: int) -> None:
    snapshot = market(assets=6, gap_share=gap_share)
    values = factor_values(snapshot.as_of(row)).values
    for asset in not_empty(range(len(snapshot.codes)), 6):
        expected = nine_factors(
            pd.DataFrame({name: getattr(snapshot, name)[: row + 1, asset] for name in FIELDS})
        )
        for name in NAMES:
            np.testing.assert_allclose(
                values[name][asset],
                expected[name],
                rtol=1e-9,
                atol=1e-12,
                err_msg=f"{name} asset {asset}",
            )


def test_the_table_of_factors_is_the_papers_and_the_documented_one(repository: Path) -> None:
    assert tuple(definition.name for definition in FACTORS) == NAMES

    lines = (repository / "docs" / "attribution.md").read_text().splitlines()
    for definition in FACTORS:
        assert definition.description
        assert 0 < definition.minimum_observations <= definition.window <= 252
        row = next(line for line in lines if line.startswith(f"| {definition.name} |"))
        assert row.endswith(f"| {definition.window} | {definition.minimum_observations} |")

    snapshot = market()
    table = factor_values(snapshot.as_of(300))

    assert tuple(table.values) == NAMES
    assert table.matrix().shape == (9, 12)

    np.testing.assert_array_equal(
        table.standardise_over(snapshot.member[300]),
        standardise(table.matrix(), snapshot.member[300]),
    )


def test_a_split_or_dividend_does_not_move_any_factor() -> None:
    plain = market(gap_share=0.02)
    split = market(gap_share=0.02)
    unsplit = {
        name: getattr(plain, name) * plain.factor for name in ("open", "high", "low", "close")
    }
    unsplit |= {"volume": plain.volume / plain.factor, "factor": np.ones_like(plain.factor)}
    plain = replace(plain, **unsplit)

    for name, values in not_empty(factor_values(split.as_of(305)).values.items(), 9):
        np.testing.assert_allclose(values, factor_values(plain.as_of(305)).values[name], rtol=1e-9)


def test_a_gap_at_the_first_row_of_a_window_uses_the_close_before_it() -> None:
    snapshot = market(rows=300, assets=2)
    close = snapshot.close.copy()
    close[40:50, 0] = np.nan
    gapped = replace(snapshot, close=close)
    row = 45 + 251
    expected = gapped.adjusted_close[row - 20, 0] / gapped.adjusted_close[39, 0] - 1.0

    assert factor_values(gapped.as_of(row)).values["MOM_12_1"][0] == pytest.approx(
        expected, rel=1e-12
    )


@pytest.mark.parametrize("lacking", [0, 1])
@pytest.mark.parametrize("definition", FACTORS, ids=lambda definition: definition.name)
def test_minimum_observations_in_the_table_match_the_kernels(
    definition: FactorDefinition, lacking: int
) -> None:
    row = 329
    missing = definition.window - definition.minimum_observations + lacking
    snapshot = market(assets=1)
    arrays = {
        name: getattr(snapshot, name).copy()
        for name in ("open", "high", "low", "close", "volume", "amount")
    }

    # The gap ends on `row`: no later bar is measured from it, so exactly `missing`
    # observations are lost.
    for array in arrays.values():
        array[row + 1 - missing : row + 1] = np.nan

    gapped = replace(snapshot, **arrays)
    value = factor_values(gapped.as_of(row)).values[definition.name][0]

    assert np.isfinite(value) == (lacking == 0)


def test_factors_appear_as_soon_as_their_window_holds_enough_days() -> None:
    snapshot = market(rows=260, assets=2)
    known = np.array(
        [np.isfinite(factor_values(snapshot.as_of(row)).matrix()).all(axis=1) for row in range(260)]
    )

    assert known.argmax(axis=0).tolist() == [251, 40, 14, 14, 13, 40, 14, 167, 13]


# ---- exposures


def test_exposures_are_winsorised_z_scores_over_the_investable_names() -> None:
    values = np.random.default_rng(3).standard_t(3, (4, 300))
    investable = np.arange(300) < 250
    exposures = standardise(values, investable)
    np.testing.assert_allclose(exposures[:, investable].mean(axis=1), 0.0, atol=1e-12)
    np.testing.assert_allclose(exposures[:, investable].std(axis=1), 1.0, rtol=1e-12)
    values = np.random.default_rng(4).standard_t(3, 301)
    expected = stats.zscore(np.clip(values, *np.quantile(values, [0.01, 0.99])))
    np.testing.assert_allclose(standardise(values, np.ones(301, dtype=bool)), expected, rtol=1e-10)
    # A name outside the index is scaled by the index and does not move it.
    values = np.append(np.random.default_rng(5).normal(size=100), 1e6)
    investable = np.arange(101) < 100
    exposures = standardise(values, investable)
    np.testing.assert_array_equal(exposures[:100], standardise(values[:100], investable[:100]))

    assert exposures[100] == exposures[:100].max()


def test_undefined_and_equal_values_have_no_exposure() -> None:
    values = np.array([1.0, np.nan, 3.0, 2.0])
    everyone = np.ones(5, dtype=bool)
    exposures = standardise(values, everyone[:4])

    assert np.isnan(exposures[1])

    np.testing.assert_array_equal(
        exposures[[0, 2, 3]], standardise(values[[0, 2, 3]], everyone[:3])
    )

    for equal in (0.1, 0.0):
        np.testing.assert_array_equal(standardise(np.full(5, equal), everyone), np.zeros(5))

    assert np.isnan(standardise(np.arange(5.0), ~everyone)).all(), "no names"

    with pytest.raises(DataError, match="4 assets, investable has 3"):
        standardise(np.arange(4.0), everyone[:3])


@pytest.mark.slow
@given(
    st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=40),
    st.floats(0.01, 100.0),
    st.floats(-50.0, 50.0),
)
def test_exposures_do_not_depend_on_unit_or_origin(
    numbers: list[float], scale: float, shift: float
) -> None:
    values = np.round(np.array(numbers), 3)
    everyone = np.ones(len(values), dtype=bool)
    exposures = standardise(values, everyone)

    if np.ptp(values) > 0.01:
        np.testing.assert_allclose(
            standardise(values * scale + shift, everyone), exposures, atol=1e-5
        )


# ---- batches: trailing windows


def assert_equal_to_kernels(snapshot: MarketSnapshot, rows: range) -> None:
    panel = factor_panel(snapshot, rows)
    assert panel.shape == (9, len(rows), len(snapshot.codes))

    for day, row in enumerate(rows):
        expected = factor_values(snapshot.as_of(row)).matrix()
        np.testing.assert_allclose(
            panel[:, day], expected, rtol=1e-12, atol=1e-12, err_msg=f"row {row}"
        )


@pytest.mark.slow
@given(st.integers(1, 40), st.integers(0, 30), st.integers(0, 2**32 - 1))
def test_trailing_figures_equal_plain_ones(width: int, extra: int, seed: int) -> None:
    values = np.random.default_rng(seed).normal(size=(width + extra, 2)) * 10.0 ** np.arange(2)
    windows = np.lib.stride_tricks.sliding_window_view(values, width, axis=0)
    np.testing.assert_allclose(
        trailing_sum(values, width), windows.sum(axis=-1), rtol=1e-12, atol=1e-12
    )
    np.testing.assert_array_equal(trailing_maximum(values, width), windows.max(axis=-1))
    np.testing.assert_array_equal(trailing_count(values > 0, width), (windows > 0).sum(axis=-1))


@pytest.mark.exhaustive
@given(
    st.lists(
        st.lists(st.one_of(st.none(), st.integers(-9, 9)), min_size=3, max_size=3),
        min_size=1,
        max_size=12,
    )
)
def test_forward_fill_equals_pandas(rows: list[list[int | None]]) -> None:
    values = np.array(rows, dtype=float)  # None becomes NaN
    np.testing.assert_array_equal(filled_forward(values), pd.DataFrame(values).ffill().to_numpy())
    before = np.array([7.0, np.nan, 9.0])
    np.testing.assert_array_equal(
        filled_forward(values, before),
        pd.DataFrame(np.vstack([before, values])).ffill().to_numpy()[1:],
    )


# ---- the panel


@pytest.mark.exhaustive
@pytest.mark.parametrize("gap_share", [0.0, 0.05, 0.3], ids=["no gaps", "some gaps", "many gaps"])
def test_panel_equals_the_kernels_on_every_row(gap_share: float) -> None:
    assert_equal_to_kernels(market(gap_share=gap_share), range(330))


def changed(
    snapshot: MarketSnapshot, rows: slice, value: float, names: tuple[str, ...] = FIELDS
) -> MarketSnapshot:
    """The market with one value in some rows of its arrays."""
    arrays = {name: getattr(snapshot, name).copy() for name in names}
    for array in arrays.values():
        array[rows] = value

    return replace(snapshot, **arrays)


def test_panel_depends_on_neither_passes_nor_threads_nor_the_future(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    snapshot = market(gap_share=0.1)
    whole = factor_panel(snapshot, range(330))
    poisoned = changed(snapshot, slice(301, None), 1e9)
    np.testing.assert_array_equal(factor_panel(poisoned, range(330))[:, :301], whole[:, :301])
    monkeypatch.setattr("ktdeval.attribution.style_factor_panel._BLOCK", 7)
    monkeypatch.setattr("ktdeval.attribution.style_factor_panel._BLOCK_ASSETS", 5)
    monkeypatch.setattr("ktdeval.values.all_cores.cores", lambda: 4)
    np.testing.assert_array_equal(factor_panel(snapshot, range(330)), whole)


@pytest.mark.exhaustive
def test_names_that_hardly_move_lose_no_digits() -> None:
    """One-pass variances cancel where values hardly differ from their mean."""
    snapshot = market(gap_share=0.02)
    rows = np.arange(330.0)
    steady = np.column_stack(
        [np.full(330, 10.0), 10.0 * 1.01**rows, 10.0 * 1.01**rows * (1.0 + 1e-7 * np.sin(rows))]
    )
    arrays = {name: getattr(snapshot, name).copy() for name in FIELDS}

    for name in PRICES:
        arrays[name][:, :3] = steady

    arrays["factor"][:, :3] = 1.0
    arrays["volume"][:, :3] = 1e6
    arrays["amount"][:, :3] = 1e9 + np.array([0.0, 1.0, 1e-3]) * np.sin(rows)[:, None]
    assert_equal_to_kernels(replace(snapshot, **arrays), range(330))


def test_values_of_a_day_are_bitwise_equal_in_any_range_and_view() -> None:
    """A name that hardly moves goes to the kernel alone on a day alone, and with its other days in
    a range.
    """
    snapshot = market(gap_share=0.02)
    arrays = {name: getattr(snapshot, name).copy() for name in PRICES}
    rows = np.arange(330.0)

    for array in arrays.values():
        array[:, 2] = 10.0 * 1.01**rows * (1.0 + 1e-7 * np.sin(rows))

    steady = replace(snapshot, **arrays)
    whole = factor_panel(steady, range(330))
    for row in range(300, 330):
        assert (
            factor_panel(steady, range(row, row + 1)).tobytes() == whole[:, row : row + 1].tobytes()
        )
        history = factor_history(steady.as_of(row), 10)
        assert history.tobytes() == whole[:, row - 9 : row + 1].transpose(1, 2, 0).tobytes()

    with pytest.raises(
        DataError, match="rows 299…300 of a view: expected consecutive rows within 0…299"
    ):
        factor_panel(steady.as_of(299), range(299, 301))


@pytest.mark.exhaustive
@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1), st.floats(0.0, 0.6))
def test_panel_equals_the_kernels_on_random_markets(seed: int, gap_share: float) -> None:
    snapshot = market(rows=290, assets=3, gap_share=gap_share, seed=seed)
    assert_equal_to_kernels(snapshot, range(240, 290, 1))


@pytest.mark.parametrize(
    "rows", [range(0), range(320, 331), range(-1, 3), range(0, 10, 2)], ids=str
)
def test_rows_outside_the_snapshot_are_refused(rows: range) -> None:
    with pytest.raises(DataError, match="expected consecutive rows within 0…329"):
        factor_panel(market(), rows)


# ---- exposures of regressions


def test_exposures_are_standardised_values_of_the_day_before() -> None:
    snapshot = market(assets=30, gap_share=0.01)
    known = exposures(snapshot, range(300, 320))

    assert known.names == FACTOR_NAMES

    for day, row in enumerate(range(300, 320)):
        expected = (
            factor_values(snapshot.as_of(row - 1)).standardise_over(snapshot.member[row - 1]).T
        )
        np.testing.assert_allclose(known.z[day], np.nan_to_num(expected), rtol=1e-9, atol=1e-12)


def test_nothing_of_the_day_itself_enters_its_exposures_and_weights() -> None:
    snapshot = market(assets=30)
    poisoned = changed(
        changed(snapshot, slice(310, None), 5.0), slice(310, None), False, ("member",)
    )
    known, other = (exposures(each, range(300, 311)) for each in (snapshot, poisoned))

    for name in ("design", "weights", "investable"):
        np.testing.assert_array_equal(getattr(known, name), getattr(other, name))


def test_weights_are_roots_of_the_mean_known_amount_of_twenty_days() -> None:
    snapshot = market(assets=6)
    mean = snapshot.amount[280:300].mean(axis=0)
    weights = exposures(snapshot, range(300, 301)).weights[0]
    np.testing.assert_allclose(weights, np.sqrt(mean) / np.median(np.sqrt(mean)), rtol=1e-12)
    amount = snapshot.amount.copy()
    amount[:, 2] = np.nan
    known = exposures(replace(snapshot, amount=amount), range(300, 310))

    assert (known.weights[:, 2] == 1.0).all(), "the median, and it is counted"

    notes = {(note.kind, note.subject): (note.count, note.days) for note in known.notes}
    assert notes["default_weight", ""] == notes["missing_exposure", "ILLIQ"] == (10, 10)

    known = exposures(changed(snapshot, slice(None), np.nan, ("amount",)), range(300, 310))
    assert (known.weights == 1.0).all(), "all the same, and it is said"
    assert [note.days for note in known.notes if note.kind == "equal_weights"] == [10]
    assert not [note for note in known.notes if note.kind == "default_weight"]


def test_an_undefined_exposure_is_the_cross_sectional_mean_and_counted() -> None:
    known = exposures(market(assets=10), range(100, 110))  # MOM_12_1 and HIGH_52W need a year
    factor = FACTOR_NAMES.index("MOM_12_1")

    assert (known.z[:, :, factor] == 0.0).all()
    assert {(note.subject, note.count) for note in known.notes} == {
        ("MOM_12_1", 100),
        ("HIGH_52W", 100),
    }


def test_factor_subset_gives_its_columns_and_unknown_factors_are_refused() -> None:
    snapshot = market(assets=12)
    rows = range(300, 305)
    places = [FACTOR_NAMES.index(name) for name in ("SKEW", "ILLIQ")]
    np.testing.assert_array_equal(
        exposures(snapshot, rows, ("SKEW", "ILLIQ")).z, exposures(snapshot, rows).z[:, :, places]
    )

    with pytest.raises(DataError, match="SKEW is named twice"):
        exposures(snapshot, rows, ("SKEW", "SKEW"))

    with pytest.raises(DataError, match="unknown style factor 'SKW'; did you mean 'SKEW'"):
        exposures(snapshot, rows, ("SKW",))

    with pytest.raises(DataError, match="within 1…329"):
        exposures(snapshot, range(3))


# ---- the VIF screen, against statsmodels


def correlated_table(rows: int = 400) -> np.ndarray:
    rng = np.random.default_rng(2)
    table = rng.normal(size=(rows, 5)) + 3.0
    table[:, 3] = table[:, 0] + 0.2 * table[:, 3]
    return table


def test_variance_inflation_equals_statsmodels_and_a_case_by_hand() -> None:
    table = correlated_table()
    design = np.column_stack([np.ones(len(table)), table])
    expected = [variance_inflation_factor(design, column) for column in range(1, 6)]
    np.testing.assert_allclose(variance_inflation(table), expected, rtol=1e-10)
    # correlation 0.6: 1 / (1 - 0.36) = 1.5625
    x = np.array([1.0, 1.0, -1.0, -1.0])
    y = np.array([1.0, -1.0, 1.0, -1.0])
    np.testing.assert_allclose(
        variance_inflation(np.column_stack([x, 0.6 * x + 0.8 * y])), [1.5625, 1.5625]
    )


def test_collinear_columns_are_infinite_and_constant_ones_take_no_part() -> None:
    table = np.column_stack([correlated_table(), np.full(400, 0.1)])
    table[:, 4] = table[:, 0] - 2.0 * table[:, 1]
    values = variance_inflation(table)

    assert np.isinf(values[[0, 1, 4]]).all()
    assert np.isnan(values[5])
    assert values[2] == pytest.approx(1.0, abs=0.05)


def test_too_few_rows_and_a_window_in_the_evaluation_are_refused() -> None:
    with pytest.raises(DataError, match="more than 4 rows"):
        variance_inflation(np.eye(4)[:, :3])

    with pytest.raises(DataError, match="not before the evaluation at 310"):
        vif_screen(market(), range(290, 320), 310)


def test_the_screen_equals_statsmodels_on_the_pooled_exposures() -> None:
    snapshot = market(assets=40, gap_share=0.01)
    screen = vif_screen(snapshot, range(280, 320), 320)
    known = exposures(snapshot, range(280, 320))
    table = known.z[known.investable & known.defined]
    design = np.column_stack([np.ones(len(table)), table])

    for index, name in enumerate(known.names):
        assert screen.vif[name] == pytest.approx(
            variance_inflation_factor(design, index + 1), rel=1e-9
        )

    assert screen.name_days == len(table)


def test_the_screen_drops_the_worst_until_all_are_within_the_limit() -> None:
    snapshot = market(assets=40)
    strict = vif_screen(snapshot, range(280, 320), 320, limit=1.05)

    assert strict.dropped
    assert set(strict.kept) | {name for name, _, _ in strict.dropped} == set(strict.vif)
    assert all(value is not None and value <= 1.05 for value in strict.final.values())

    first = max(strict.vif, key=lambda name: strict.vif[name] or 0.0)
    assert strict.dropped[0] == (first, strict.vif[first], "VIF above 1.05")
    assert vif_screen(snapshot, range(280, 320), 320).kept == tuple(strict.vif)


def test_a_factor_without_history_is_dropped_as_constant() -> None:
    screen = vif_screen(market(assets=40), range(100, 120), 120)
    assert {name: reason for name, _, reason in screen.dropped} == {
        "MOM_12_1": "does not vary",
        "HIGH_52W": "does not vary",
    }
    assert screen.vif["MOM_12_1"] is None
