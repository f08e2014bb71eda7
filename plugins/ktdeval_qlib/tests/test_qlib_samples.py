"""Samples of the supervised baselines: factors of any day, labels, purged segments, scaling, and no
look-ahead.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from msgspec import structs

from ktdeval import errors
from ktdeval.attribution import FACTOR_NAMES, factor_history, factor_panel
from ktdeval.errors import ConfigError, DataError
from ktdeval.market import FloatArray, MarketSnapshot
from ktdeval.testing import on_each_row
from ktdeval_qlib import samples as module
from ktdeval_qlib.samples import (
    FIRST_ROW,
    LABEL_REACH,
    Label,
    Layout,
    Samples,
    Scaler,
    SegmentDays,
    feature_names,
    label_rows,
    make_samples,
    make_split,
    normalised_labels,
    paper_segments,
    shuffled_labels,
    step_input,
)
from qlib_market import FROZEN, SEGMENTS, baseline_market
from support.tasks.ktdfin_market import poisoned

MARKET = baseline_market()
LAST = len(MARKET.days) - 1
SPLIT = make_split(MARKET, SEGMENTS)
VALID_ROW, TEST_ROW = (MARKET.day_index(day) for day in ("2024-02-08", "2024-03-11"))


def samples_of(market: MarketSnapshot, label: Label = "qlib", days: int = 20) -> Samples:
    return make_samples(market, make_split(market, SEGMENTS), label, days)


def factors_of(market: MarketSnapshot, rows: range) -> FloatArray:
    """[T, N, 9] raw factors."""
    return factor_panel(market, rows).transpose(1, 2, 0)


# ---- features


def test_factors_of_samples_are_the_same_bits_as_those_behind_a_cursor() -> None:
    """Names whose price never moves are passed to the attribution's kernels in groups that depend
    on the range.
    """
    samples = samples_of(MARKET)

    for row in (samples.first, FIRST_ROW, FIRST_ROW + 7, 290, LAST):
        days = min(20, row - samples.first + 1)
        history = factor_history(MARKET.as_of(row), days)
        stop = row - samples.first + 1
        assert history.tobytes() == samples.features[stop - days : stop].tobytes()

    assert np.isfinite(samples.features[-1, FROZEN[0]]).any()


def test_all_factors_are_known_from_the_first_row_on() -> None:
    known = np.isfinite(factors_of(MARKET, range(LAST + 1))).any(axis=1)
    assert not known[FIRST_ROW - 1].all()
    assert known[FIRST_ROW:].all()
    assert not known[0].any()


@pytest.mark.parametrize("layout", ["flat", "window", "unrolled"])
def test_the_input_of_a_step_does_not_depend_on_the_future(layout: Layout) -> None:
    scaler = Scaler.fit(samples_of(MARKET))
    for row in (FIRST_ROW, 290, LAST - 1):
        views = [one.as_of(row) for one in (MARKET, poisoned(MARKET, row))]
        np.testing.assert_array_equal(
            *(step_input(factor_history(view, 20), scaler, layout) for view in views)
        )


# ---- labels


def test_labels_by_hand() -> None:
    closes, opens, factor = (getattr(MARKET, name).copy() for name in ("close", "open", "factor"))
    closes[300:305, 0], opens[300:305, 0] = (
        [10.0, 11.0, 12.0, 6.6, np.nan],
        [10.0, 10.5, 12.6, 6.3, np.nan],
    )
    factor[300:, 0] = [1.0, 1.0, 1.0] + [2.0] * (LAST + 1 - 303)
    market = replace(MARKET, close=closes, open=opens, factor=factor)
    np.testing.assert_allclose(
        label_rows(market, range(299, 303), "qlib")[:, 0],
        [11 / 10 - 1, 12 / 11 - 1, 13.2 / 12 - 1, np.nan],
    )
    np.testing.assert_allclose(
        label_rows(market, range(299, 303), "open")[:, 0], [0.05, 0.2, 0.0, np.nan], atol=1e-15
    )


def test_labels_after_the_data_are_unknown() -> None:
    labels = label_rows(MARKET, range(LAST - 3, LAST + 1), "qlib")
    assert np.isfinite(labels[:2]).any(axis=1).all()
    assert np.isnan(labels[2:]).all()
    assert np.isnan(label_rows(MARKET, range(LAST, LAST + 1), "open")).all()

    with pytest.raises(ConfigError, match="label 'close' is unknown; give one of qlib, open"):
        label_rows(MARKET, range(5), "close")  # type: ignore[arg-type]


def test_ranks_and_scores_by_hand() -> None:
    labels = np.array(
        [[0.03, np.nan, -0.01, 0.03, 0.01], [np.nan] * 5, [2.0, 2.0, 2.0, np.nan, np.nan]]
    )
    ranks = normalised_labels(labels, "CSRankNorm")
    # Percentile ranks 3.5/4, 1/4, 3.5/4, 2/4.
    np.testing.assert_allclose(ranks[0], np.array([0.375, np.nan, -0.25, 0.375, 0.0]) * 3.46)

    assert np.isnan(ranks[1]).all()

    np.testing.assert_allclose(ranks[2, :3], (2 / 3 - 0.5) * 3.46)
    scores = normalised_labels(labels[:1], "CSZScoreNorm")[0]
    # Mean 0.015, deviations 0.015, -0.025, 0.015, -0.005; variance 0.0011 / 3.
    np.testing.assert_allclose(
        scores, np.array([0.015, np.nan, -0.025, 0.015, -0.005]) / np.sqrt(0.0011 / 3)
    )

    assert np.isnan(normalised_labels(labels[1:], "CSZScoreNorm")).all()

    np.testing.assert_array_equal(normalised_labels(labels, "none"), labels)

    with pytest.raises(ConfigError, match="give CSRankNorm, CSZScoreNorm or none"):
        normalised_labels(labels, "rank")  # type: ignore[arg-type]


# ---- segments


def test_the_papers_segments() -> None:
    assert paper_segments().train == SegmentDays("2008-01-01", "2022-12-31")
    assert paper_segments().valid == SegmentDays("2023-01-01", "2023-12-31")
    assert paper_segments().test == SegmentDays("2024-01-01", "2026-04-10")


def test_segments_are_cut_to_the_snapshot_purged_and_both_are_recorded() -> None:
    assert SPLIT.wanted == SEGMENTS

    train, valid, test = (days for _, days in SPLIT.used.items())
    assert train.first == str(MARKET.days[FIRST_ROW])
    # 2024-02-08 is the last session before the holiday: training loses the 6th and 7th, validation
    # the 7th and 8th of March.
    assert (train.last, valid.first, valid.last) == ("2024-02-05", "2024-02-08", "2024-03-06")
    assert test == SegmentDays("2024-03-11", str(MARKET.days[-1]))


def test_segments_without_test_read_nothing_after_validation() -> None:
    used = make_split(MARKET, structs.replace(SEGMENTS, test=None)).used
    assert used.test is None
    assert used.valid == SPLIT.used.valid


@on_each_row(
    "segment, first, last, error, message",
    (
        "train",
        "2008-01-01",
        "2022-12-31",
        "DataError",
        "train days 2008-01-01…2022-12-31: none is left .* 2023-12-22",
    ),
    (
        "test",
        "2025-01-01",
        "2025-12-31",
        "DataError",
        "test days 2025-01-01…2025-12-31: none is left .* to 2024-04-19",
    ),
    (
        "valid",
        "2024-02-08",
        "2024-02-08",
        "DataError",
        "valid days .* give other valid days, or data that reach further",
    ),
    (
        "valid",
        "2024-02-07",
        "2024-03-08",
        "ConfigError",
        "valid days 2024-02-07…2024-03-08: .* share no day",
    ),
    ("valid", "2024-03-08", "2024-02-19", "ConfigError", "segments are in order"),
    ("train", "soon", "2024-02-07", "ConfigError", "train days: 'soon' is not a date"),
)
def test_segments_that_cannot_be_used_are_refused(
    segment: str, first: str, last: str, error: str, message: str
) -> None:
    with pytest.raises(getattr(errors, error), match=message):
        make_split(MARKET, structs.replace(SEGMENTS, **{segment: SegmentDays(first, last)}))


# ---- samples


def test_samples_are_members_of_the_segments_days_with_a_label() -> None:
    samples = samples_of(MARKET)
    assert samples.features.shape == (*samples.labels.shape, 9)
    assert str(samples.days[19]) == SPLIT.used.train.first
    assert samples.first == FIRST_ROW - 19

    known = np.isfinite(samples.labels)
    assert not known[~samples.member].any()

    expected = label_rows(MARKET, range(samples.first, LAST + 1), "qlib")

    for name, days in SPLIT.used.items():
        rows = samples.rows(name)
        assert SegmentDays(str(samples.days[rows][0]), str(samples.days[rows][-1])) == days
        np.testing.assert_array_equal(
            samples.labels[rows], np.where(samples.member[rows], expected[rows], np.nan)
        )
        known[rows] = False

    assert not known.any()

    # A name that lacks a factor is still a sample: column 7 was listed within the year.
    rows = samples.rows("train")
    assert (np.isfinite(samples.labels[rows]) & np.isnan(samples.features[rows]).any(axis=2)).any()


def test_a_segment_that_is_absent_is_refused() -> None:
    samples = make_samples(MARKET, make_split(MARKET, structs.replace(SEGMENTS, test=None)))
    with pytest.raises(DataError, match="segment 'test' has no days"):
        samples.rows("test")

    outside = replace(MARKET, member=np.zeros_like(MARKET.member))
    with pytest.raises(DataError, match="has no index member with a qlib label"):
        make_samples(outside, SPLIT)


def test_shuffled_labels_keep_each_days_labels_and_the_test() -> None:
    samples = samples_of(MARKET)
    shuffled = shuffled_labels(samples, 3).labels
    np.testing.assert_array_equal(np.isnan(shuffled), np.isnan(samples.labels))
    np.testing.assert_array_equal(np.sort(shuffled, axis=1), np.sort(samples.labels, axis=1))
    np.testing.assert_array_equal(
        shuffled[samples.rows("test")], samples.labels[samples.rows("test")]
    )

    for name in ("train", "valid"):
        rows = samples.rows(name)
        before, after = (
            normalised_labels(labels[rows], "CSRankNorm") for labels in (samples.labels, shuffled)
        )
        assert abs(np.corrcoef(before[np.isfinite(before)], after[np.isfinite(after)])[0, 1]) < 0.1

    np.testing.assert_array_equal(shuffled_labels(samples, 3).labels, shuffled)

    assert not np.array_equal(shuffled_labels(samples, 4).labels, shuffled, equal_nan=True)


# ---- scaling


def test_scaler_by_hand() -> None:
    samples = samples_of(MARKET)
    rows = samples.rows("train")
    features = np.full_like(samples.features, 1e9)
    member = np.zeros_like(samples.member)
    member[rows.start, :5] = True
    features[rows.start, :5] = np.array([1.0, 2.0, 4.0, 8.0, np.nan])[:, None]
    features[..., 8] = np.nan
    scaler = Scaler.fit(replace(samples, features=features, member=member))
    # Median 3, absolute deviations 2, 1, 1, 5 with median 1.5; the name that is not a member, and
    # other days, are ignored.
    np.testing.assert_allclose(scaler.center[:8], 3.0)
    np.testing.assert_allclose(scaler.scale[:8], 1.5 * 1.4826, rtol=1e-11)
    scaled = scaler.apply(np.array([[3.0, 5.2239, 1e6, -np.inf, np.nan, 0.7761, 3.0, 3.0, 7.0]]))
    np.testing.assert_allclose(
        scaled, [[0.0, 1.0, 3.0, -3.0, 0.0, -1.0, 0.0, 0.0, 0.0]], atol=1e-10
    )


# ---- inputs


def test_columns_are_named_feature_by_feature_oldest_first() -> None:
    assert feature_names("flat", 1) == list(FACTOR_NAMES) == feature_names("window", 20)

    names = feature_names("unrolled", 60)
    assert (len(names), names[0], names[59], names[60], names[-1]) == (
        540,
        "MOM_12_1_D59",
        "MOM_12_1_D0",
        "RV_60_D59",
        "CV_VOL_D0",
    )


def test_inputs_of_a_step_by_layout() -> None:
    scaler = Scaler.fit(samples_of(MARKET))
    row = 300
    history = factors_of(MARKET, range(row - 3, row + 1))[:, [40, 2, 7]]
    scaled = scaler.apply(history)
    np.testing.assert_array_equal(step_input(history, scaler, "flat"), scaled[-1])
    np.testing.assert_array_equal(step_input(history, scaler, "window"), scaled.transpose(1, 0, 2))
    unrolled = step_input(history, scaler, "unrolled")

    assert (unrolled.shape, unrolled.dtype) == ((3, 36), np.float32)

    np.testing.assert_array_equal(
        unrolled.reshape(3, 9, 4), scaled.transpose(1, 2, 0).astype(np.float32)
    )


@pytest.mark.parametrize("layout", ["flat", "window", "unrolled"])
def test_the_input_of_a_name_does_not_depend_on_the_order_of_names(layout: str) -> None:
    """A mask passes names in its own order."""
    scaler = Scaler.fit(samples_of(MARKET))
    history = factor_history(MARKET.as_of(LAST), 20)
    order = np.random.default_rng(2).permutation(history.shape[1])
    np.testing.assert_array_equal(
        step_input(history[:, order], scaler, layout),
        step_input(history, scaler, layout)[order],
    )


# ---- leakage


def trained_on(market: MarketSnapshot, segments: tuple[str, ...], label: Label) -> list[FloatArray]:
    """All data that a model can learn from in a market: features, labels and scaler of some
    segments.
    """
    samples = samples_of(market, label)
    scaler = Scaler.fit(samples)
    rows = slice(0, samples.rows(segments[-1]).stop)
    learnt = [
        scaler.center,
        scaler.scale,
        samples.features[rows],
        samples.labels[rows],
        shuffled_labels(samples, 1).labels[rows],
    ]

    return [
        *learnt,
        normalised_labels(samples.labels[rows], "CSRankNorm"),
        scaler.apply(samples.features[rows]),
    ]


def leaks(segments: tuple[str, ...], row: int, label: Label) -> bool:
    """Return whether any training data of `segments` depend on prices from `row` on."""
    changed = poisoned(MARKET, row - 1)
    before = trained_on(MARKET, segments, label)
    after = trained_on(changed, segments, label)

    assert not np.array_equal(changed.close, MARKET.close, equal_nan=True)

    return not all(
        np.array_equal(one, other, equal_nan=True) for one, other in zip(before, after, strict=True)
    )


@pytest.mark.slow
@pytest.mark.parametrize("label", ["qlib", "open"])
def test_nothing_learnt_changes_with_later_prices(label: Label) -> None:
    assert not leaks(("train",), VALID_ROW, label)
    assert not leaks(("train", "valid"), TEST_ROW, label)
    # The purge is no wider than necessary, and the test has power: the previous day's price is
    # used.
    assert leaks(("train",), VALID_ROW - 1, label)
    assert leaks(("train", "valid"), TEST_ROW - 1, label)


@pytest.mark.parametrize("reach", range(LABEL_REACH))
def test_a_purge_too_short_is_found(reach: int, monkeypatch: pytest.MonkeyPatch) -> None:
    label_reach = LABEL_REACH
    original = module.label_rows

    def labels(snapshot: MarketSnapshot, rows: range, label: Label) -> FloatArray:
        with monkeypatch.context() as patch:
            patch.setattr(module, "LABEL_REACH", label_reach)
            return original(snapshot, rows, label)

    monkeypatch.setattr(module, "label_rows", labels)
    monkeypatch.setattr(module, "LABEL_REACH", reach)

    assert leaks(("train",), VALID_ROW, "qlib")


def test_a_scaler_fitted_to_everything_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Samples.rows
    monkeypatch.setattr(
        Samples,
        "rows",
        lambda self, name: slice(0, None) if name == "train" else original(self, name),
    )
    before, after = (
        Scaler.fit(samples_of(market)).center for market in (MARKET, poisoned(MARKET, TEST_ROW - 1))
    )

    assert not np.array_equal(before, after)
