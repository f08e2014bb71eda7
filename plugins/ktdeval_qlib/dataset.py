"""Convert samples to pyqlib datasets, which are the objects that pyqlib's models fit and predict
on, with the same features as in a trading step.

pyqlib's handler receives finished frames: features scaled by `Scaler`, and labels normalised by
`normalised_labels`. These equal the output of pyqlib's processors RobustZScoreNorm, Fillna,
DropnaLabel and CSRankNorm (or CSZScoreNorm). `qlib.init` is not needed, since no data provider is
read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from msgspec.structs import astuple
from qlib.data.dataset import DatasetH, TSDatasetH
from qlib.data.dataset.handler import DataHandlerLP
from qlib.data.dataset.loader import StaticDataLoader

from ktdeval.errors import DataError
from ktdeval.market import BoolArray
from ktdeval_qlib.samples import (
    Layout,
    Norm,
    Samples,
    Scaler,
    arrange_sequences,
    feature_names,
    normalised_labels,
    sequences,
)

LABEL = ("label", "LABEL0")
#: column of a window dataset: True for samples, False for rows that are only history for a window
SERVED = ("sample", "SERVED")


def make_dataset(
    samples: Samples, scaler: Scaler, layout: Layout, days: int = 1, norm: Norm = "CSRankNorm"
) -> Any:
    """Return pyqlib's dataset with all segments: index (datetime, instrument), columns `feature`
    and `("label", "LABEL0")`.

    The layout `flat` gives a DatasetH with the nine factors, `unrolled` a DatasetH with 9 × `days`
    columns, and `window` a TSDatasetH with the nine factors and `days` as its `step_len`: [days,
    10] per sample, with the label last.

    Learning data (DK_L) are the samples, with normalised labels. Inference data (DK_I and DK_R,
    which are equal) are all index members of a day, with raw labels; rows of purged days are in no
    segment. A window contains the days before the sample, on which the name need not be a member or
    have a label. Models fill days before the start of the data with
    `config(fillna_type="ffill+bfill")`.

    Raises DataError if the samples have fewer rows before the first training day than sequences
    need, although the snapshot has these rows: training and trading would then see different
    features.
    """
    before = samples.rows("train").start
    if before < days - 1 and samples.first > 0:
        raise DataError(
            f"samples begin {before} days before training, sequences are {days} days long; make"
            f" them with days={days}"
        )

    segments = {name: astuple(part) for name, part in samples.split.used.items()}
    if "test" not in segments:
        # KRNN and Sandwich request test data in `fit`, but do not use them.
        after = str(np.datetime64(segments["valid"][1], "D") + 1)
        segments["test"] = (after, after)

    shown = np.ones_like(samples.member) if layout == "window" else samples.member
    features = _features(samples, scaler, layout, days, shown)
    labels = normalised_labels(samples.labels, norm)[shown]
    is_sample = np.isfinite(labels)

    if layout == "window":
        infer = _beside(features, {LABEL: samples.labels[shown], SERVED: samples.member[shown]})
        learn = _beside(features, {LABEL: labels, SERVED: is_sample})
    else:
        infer = _beside(features, {LABEL: samples.labels[shown]})
        learn = _beside(features[is_sample], {LABEL: labels[is_sample]})

    handler = DataHandlerLP(data_loader=StaticDataLoader(infer))
    # Finished frames are used instead of processors, so that a scaler can be stored without pickle
    # and windows keep days without a label.
    handler._learn = learn
    if layout == "window":
        return TSDatasetH(step_len=days, flt_col=SERVED[0], handler=handler, segments=segments)

    return DatasetH(handler=handler, segments=segments)


def _features(
    samples: Samples, scaler: Scaler, layout: Layout, days: int, shown: BoolArray
) -> pd.DataFrame:
    """Return the frame of scaled features for the days and names in `shown`, [T, N]."""
    rows, assets = np.nonzero(shown)
    index = pd.MultiIndex.from_arrays(
        [samples.days.astype("datetime64[ns]")[rows], np.array(samples.codes)[assets]],
        names=["datetime", "instrument"],
    )
    columns = pd.MultiIndex.from_product([["feature"], feature_names(layout, days)])
    of_days = sequences(scaler.apply(samples.features), layout, 1 if layout == "window" else days)
    values = np.empty((len(rows), len(columns)), of_days.dtype)
    stop = 0

    # one day at a time, since all days together do not fit in the cache
    for sequence, names in zip(of_days, shown, strict=True):
        start = stop
        stop = stop + int(names.sum())
        values[start:stop] = arrange_sequences(
            sequence[names], "flat" if layout == "window" else layout
        )

    return pd.DataFrame(values, index, columns, copy=False)


def _beside(
    features: pd.DataFrame, others: Mapping[tuple[str, str], npt.NDArray[Any]]
) -> pd.DataFrame:
    """Return a frame with features, followed by other columns."""
    columns = (pd.DataFrame({name: values}, features.index) for name, values in others.items())
    return pd.concat([features, *columns], axis=1)
