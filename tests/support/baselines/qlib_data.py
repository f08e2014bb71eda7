"""Small pyqlib datasets with a planted factor: label = 0.05 × first of nine columns + noise, in the
three layouts.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from ktdeval.attribution import FACTOR_NAMES

ROUNDS = {"mlp": 40, "lightgbm": 20, "xgboost": 20, "catboost": 20, "doubleensemble": 5}
"""Rounds of a quick training; one epoch of the others."""
SEGMENTS = {"train": (0.0, 0.6), "valid": (0.6, 0.8), "test": (0.8, 1.0)}


def planted(names: int = 40, days: int = 150, seed: int = 0) -> tuple[pd.DataFrame, pd.Series]:
    """Return factors [days × names, 9] and labels: independent normal factors, the first one
    pays.
    """
    rng = np.random.default_rng(seed)
    index = pd.MultiIndex.from_product(
        [pd.bdate_range("2020-01-01", periods=days), [f"S{n:03d}" for n in range(names)]],
        names=["datetime", "instrument"],
    )
    factors = rng.standard_normal((days, names, len(FACTOR_NAMES)))
    label = 0.05 * factors[:, :, 0] + 0.05 * rng.standard_normal((days, names))
    label = pd.Series(label.reshape(-1), index, name="LABEL0")

    return pd.DataFrame(factors.reshape(-1, len(FACTOR_NAMES)), index, FACTOR_NAMES), label


def unrolled(factors: pd.DataFrame, length: int = 60) -> pd.DataFrame:
    """Return [N, 9 × length] as Alpha360 lays it: factor by factor, oldest day first, without rows
    that lack a past.
    """
    by_name = factors.groupby(level="instrument")
    columns = {}

    for name, ago in product(factors, reversed(range(length))):
        columns[f"{name}{ago}"] = by_name[name].shift(ago)

    return pd.DataFrame(columns).dropna()


def dataset(
    layout: str, names: int = 40, days: int = 150, seed: int = 0, shuffled: bool = False
) -> Any:
    """Return a DatasetH (flat, unrolled) or a TSDatasetH of 20 days (window) with segments train,
    valid and test.
    """
    from qlib.data.dataset import DatasetH, TSDatasetH
    from qlib.data.dataset.handler import DataHandlerLP
    from qlib.data.dataset.loader import StaticDataLoader

    factors, label = planted(names, days, seed)

    if shuffled:
        label = pd.Series(
            np.random.default_rng(seed + 1).permutation(label.to_numpy()),
            label.index,
            name=label.name,
        )

    features = unrolled(factors) if layout == "unrolled" else factors
    table = pd.concat({"feature": features, "label": label.to_frame().loc[features.index]}, axis=1)
    dates = features.index.get_level_values("datetime").unique()
    segments = {
        name: (dates[int(low * len(dates))], dates[int(high * len(dates)) - 1])
        for name, (low, high) in SEGMENTS.items()
    }
    rank = {"class": "CSRankNorm", "kwargs": {"fields_group": "label"}}
    handler = DataHandlerLP(
        data_loader=StaticDataLoader(table), learn_processors=["DropnaLabel", rank]
    )

    if layout == "window":
        return TSDatasetH(handler=handler, segments=segments, step_len=20)

    return DatasetH(handler=handler, segments=segments)


def small(layout: str) -> Any:
    """Return the dataset of `trained`: a few hundred rows."""
    return dataset(layout, names=10 if layout == "unrolled" else 12, days=110)


@functools.cache
def trained(name: str, seed: int = 3) -> Any:
    """Return an estimator after a quick training on `small`."""
    from ktdeval_qlib.recipes import Estimator, recipes

    estimator = Estimator(recipes()[name], seed, rounds=ROUNDS.get(name, 1))
    estimator.fit(small(estimator.recipe.layout))

    return estimator


def samples(layout: str, segment: str = "test") -> tuple[np.ndarray, pd.MultiIndex]:
    """Return the samples of `small`, [N, 9], [N, 20, 9] or [N, 540], and the index (datetime,
    instrument) of each.
    """
    data = small(layout)

    if layout == "window":
        sampler = data.prepare(segment, col_set=["feature", "label"])
        sampler.config(fillna_type="ffill+bfill")
        return np.stack([sampler[row][:, :-1] for row in range(len(sampler))]), sampler.get_index()

    table = data.prepare(segment, col_set="feature")

    return table.to_numpy(), table.index


def published(frame: pd.DataFrame, segments: Mapping[str, tuple[Any, Any]], norm: str) -> Any:
    """Return the DatasetH that a published workflow configures on a raw frame; `norm` of labels: a
    processor's name or `none`.
    """
    from qlib.data.dataset import DatasetH
    from qlib.data.dataset.handler import DataHandlerLP
    from qlib.data.dataset.loader import StaticDataLoader

    first, last = segments["train"]
    scaling = {
        "fit_start_time": first,
        "fit_end_time": last,
        "fields_group": "feature",
        "clip_outlier": True,
    }
    labels = [] if norm == "none" else [{"class": norm, "kwargs": {"fields_group": "label"}}]
    handler = DataHandlerLP(
        data_loader=StaticDataLoader(frame),
        infer_processors=[
            {"class": "RobustZScoreNorm", "kwargs": scaling},
            {"class": "Fillna", "kwargs": {"fields_group": "feature"}},
        ],
        learn_processors=[{"class": "DropnaLabel"}, *labels],
    )

    return DatasetH(handler=handler, segments=segments)
