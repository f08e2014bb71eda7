"""Datasets of pyqlib: pyqlib's own processors give the same frames, and a trading step sees the
same input as the dataset's sample of that day.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from msgspec import structs

from ktdeval.attribution import factor_history
from ktdeval.errors import DataError
from ktdeval_qlib.samples import (
    FIRST_ROW,
    LABELS,
    Layout,
    Norm,
    Samples,
    Scaler,
    feature_names,
    make_samples,
    make_split,
    normalised_labels,
    step_input,
)
from qlib_market import SEGMENTS, baseline_market
from support.baselines.qlib_data import published

pytest.importorskip("qlib")

from qlib.data.dataset import DatasetH, TSDatasetH
from qlib.data.dataset.handler import DataHandlerLP

from ktdeval.testing import not_empty
from ktdeval_qlib.dataset import make_dataset

MARKET = baseline_market()
SPLIT = make_split(MARKET, SEGMENTS)
SEGMENTED = {name: structs.astuple(days) for name, days in SPLIT.used.items()}
BOTH = ["feature", "label"]
LEARN = DataHandlerLP.DK_L
INFER = DataHandlerLP.DK_I
RAW = DataHandlerLP.DK_R
SEGMENT_NAMES = ("train", "valid", "test")
WINDOWS = [("window", 20), ("window", 60), ("unrolled", 60)]


def raw_frame(samples: Samples) -> pd.DataFrame:
    """Frame as pyqlib's loader would give it: raw factors and labels of the members of each day."""
    rows, assets = np.nonzero(samples.member)
    index = pd.MultiIndex.from_arrays(
        [samples.days.astype("datetime64[ns]")[rows], np.array(samples.codes)[assets]],
        names=["datetime", "instrument"],
    )
    columns = [("feature", name) for name in feature_names("flat", 1)] + [("label", "LABEL0")]
    values = np.column_stack([samples.features[rows, assets], samples.labels[rows, assets]])

    return pd.DataFrame(values, index, pd.MultiIndex.from_tuples(columns))


def served(dataset: Any, segment: str, key: str) -> tuple[pd.MultiIndex, np.ndarray]:
    """Index and values of the data that models get for a segment, with windows filled as models
    request.
    """
    data = dataset.prepare(segment, col_set=BOTH, data_key=key)
    if isinstance(data, pd.DataFrame):
        return data.index, data["feature"].to_numpy()

    data.config(fillna_type="ffill+bfill")

    return data.get_index(), data[list(range(len(data)))][..., :-1]


@pytest.mark.parametrize("norm", ["CSRankNorm", "CSZScoreNorm", "none"])
@pytest.mark.parametrize("label", LABELS)
def test_flat_data_are_what_pyqlibs_own_workflow_makes_of_the_raw_frame(
    label: Any, norm: Norm
) -> None:
    samples = make_samples(MARKET, SPLIT, label)
    ours = make_dataset(samples, Scaler.fit(samples), "flat", norm=norm)
    theirs = published(raw_frame(samples), SEGMENTED, norm)

    for segment in SEGMENT_NAMES:
        for key in (LEARN, INFER):
            one, other = (
                data.prepare(segment, col_set=BOTH, data_key=key) for data in (ours, theirs)
            )
            pd.testing.assert_frame_equal(one, other, rtol=1e-12, atol=1e-12, check_freq=False)

        raw = ours.prepare(segment, col_set="label", data_key=RAW)["LABEL0"]
        pd.testing.assert_series_equal(
            raw, theirs.prepare(segment, col_set="label", data_key=RAW)["LABEL0"]
        )


@pytest.mark.parametrize(
    ("layout", "days"),
    [("flat", 1), *WINDOWS, ("window", FIRST_ROW + 9), ("unrolled", FIRST_ROW + 9)],
)
def test_a_step_sees_what_the_dataset_serves_for_its_day(layout: Layout, days: int) -> None:
    """Training and trading see the same data: learning and inference data of each segment are
    compared with the view at the day's close.
    """
    samples = make_samples(MARKET, SPLIT, days=days)

    assert samples.first == max(0, FIRST_ROW - days + 1), "days before the data are filled alike"

    scaler = Scaler.fit(samples)
    dataset = make_dataset(samples, scaler, layout, days)

    for segment in SEGMENT_NAMES:
        for key in (LEARN, INFER):
            index, values = served(dataset, segment, key)
            dates = index.get_level_values("datetime")
            for day in (dates.min(), dates[len(dates) // 2], dates.max()):
                at = np.flatnonzero(dates == day)
                assets = [
                    MARKET.asset_index[code] for code in index.get_level_values("instrument")[at]
                ]
                view = MARKET.as_of(MARKET.day_index(str(day.date())))
                history = factor_history(view, days)[:, assets]
                np.testing.assert_array_equal(values[at], step_input(history, scaler, layout))


@pytest.mark.parametrize(("layout", "days"), [("flat", 1), ("window", 5), ("unrolled", 5)])
def test_learning_data_are_samples_and_inference_data_members(layout: Layout, days: int) -> None:
    samples = make_samples(MARKET, SPLIT, days=days)
    dataset = make_dataset(samples, Scaler.fit(samples), layout, days)
    for segment in SEGMENT_NAMES:
        rows = samples.rows(segment)
        wanted = {LEARN: np.isfinite(samples.labels[rows]), INFER: samples.member[rows]}
        assert wanted[LEARN].sum() < wanted[INFER].sum()
        for key, mask in wanted.items():
            index, values = served(dataset, segment, key)
            named = {
                (str(samples.days[rows][row]), samples.codes[asset])
                for row, asset in zip(*np.nonzero(mask), strict=True)
            }
            assert {(str(day.date()), code) for day, code in index} == named
            assert len(values) == mask.sum()
            assert np.isfinite(values).all()


def test_a_windows_label_is_its_last_days() -> None:
    samples = make_samples(MARKET, SPLIT, days=5)
    sampler = make_dataset(samples, Scaler.fit(samples), "window", 5).prepare(
        "train", col_set=BOTH, data_key=LEARN
    )
    known = normalised_labels(samples.labels, "CSRankNorm")

    for position, (day, code) in enumerate(not_empty(sampler.get_index())):
        row = int(np.searchsorted(samples.days, np.datetime64(day, "D")))
        assert sampler[position][-1, -1] == known[row, samples.codes.index(code)]


def test_unrolled_columns_are_reshaped_by_models_into_factors_by_days() -> None:
    """SFM, KRNN, Sandwich, ADARNN and ADD reshape to [n, d_feat, days], oldest first."""
    samples = make_samples(MARKET, SPLIT, days=6)
    scaler = Scaler.fit(samples)
    frame = make_dataset(samples, scaler, "unrolled", 6).prepare(
        "test", col_set="feature", data_key=INFER
    )

    assert list(frame.columns) == feature_names("unrolled", 6)
    assert frame.to_numpy().dtype == np.float32

    scaled = scaler.apply(samples.features).astype(np.float32)
    row = samples.rows("test").start
    columns = np.flatnonzero(samples.member[row])
    reshaped = frame.to_numpy()[: len(columns)].reshape(len(columns), 9, -1)
    np.testing.assert_array_equal(reshaped, scaled[row - 5 : row + 1, columns].transpose(1, 2, 0))


def test_kinds_and_segments() -> None:
    samples = make_samples(MARKET, SPLIT, days=5)
    scaler = Scaler.fit(samples)

    assert type(make_dataset(samples, scaler, "unrolled", 5)) is DatasetH
    assert type(make_dataset(samples, scaler, "window", 5)) is TSDatasetH

    flat = make_dataset(samples, scaler, "flat")
    assert flat.segments["train"] == structs.astuple(SPLIT.used.train)
    assert flat.segments["valid"] == structs.astuple(SPLIT.used.valid)


def test_a_dataset_without_test_days_serves_none() -> None:
    split = make_split(MARKET, structs.replace(SEGMENTS, test=None))
    samples = make_samples(MARKET, split)
    train, valid, test = make_dataset(samples, Scaler.fit(samples), "flat").prepare(
        list(SEGMENT_NAMES), col_set=BOTH, data_key=LEARN
    )

    assert len(train) > len(valid) > len(test) == 0
    assert str(valid.index.get_level_values(0).max().date()) == split.used.valid.last


def test_samples_too_short_for_the_sequences_are_refused() -> None:
    samples = make_samples(MARKET, SPLIT, days=5)
    with pytest.raises(
        DataError,
        match=(
            "samples begin 4 days before training, sequences are 20 days long; make them with"
            " days=20"
        ),
    ):
        make_dataset(samples, Scaler.fit(samples), "window", 20)
