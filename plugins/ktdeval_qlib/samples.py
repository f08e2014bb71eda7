"""Make the samples for the supervised baselines: nine style factors per day and name, labels,
purged segments, scaled features, and the inputs for a trading step.

Training and trading use the same features. Training reads whole ranges of days (`factor_panel`),
and trading reads the history up to a day (`factor_history`), which gives the same bits for the same
day. Both then use `Scaler.apply`, `sequences` and `arrange_sequences`. All of these use numpy;
`dataset` converts the result for pyqlib.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import msgspec
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from ktdeval.attribution import FACTOR_NAMES, FACTORS, factor_panel
from ktdeval.errors import ConfigError, DataError
from ktdeval.market import BoolArray, DayArray, FloatArray, MarketSnapshot, parse_day
from ktdeval.values import derive_seed
from ktdeval_qlib.training_options import Label

LABELS: Mapping[Label, str] = {
    "qlib": (
        "close of t+2 / close of t+1 - 1, adjusted: Qlib's Ref($close, -2) / Ref($close, -1) - 1"
    ),
    "open": (
        "open of t+2 / open of t+1 - 1, adjusted: a decision after the close of t is filled at the"
        " open of t+1"
    ),
}
LABEL_REACH = 2  #: number of days after the sample's day whose prices a label uses
Norm = Literal["CSRankNorm", "CSZScoreNorm", "none"]
Layout = Literal["flat", "window", "unrolled"]
#: first row of a snapshot at which all nine factors have full windows
FIRST_ROW = max(factor.window for factor in FACTORS) - 1
CLIP = 3.0  #: maximum absolute value to which scaled features are clipped
# constant in pyqlib's RobustZScoreNorm
_MAD_TO_DEVIATION = 1.4826
_EPSILON = 1e-12

# ---- segments


_Day = Annotated[str, msgspec.Meta(pattern=r"^\d{4}-\d\d-\d\d\Z")]


class SegmentDays(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """First and last day of a segment, as ISO dates, both inclusive."""

    first: _Day
    last: _Day


class Segments(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Days of training, validation and test. Test may be absent for a model that will be used on
    future days.
    """

    train: SegmentDays
    valid: SegmentDays
    test: SegmentDays | None = None

    def items(self) -> list[tuple[str, SegmentDays]]:
        """Return the name and days of each given segment, in time order."""
        segments = [("train", self.train), ("valid", self.valid)]
        if self.test is not None:
            segments.append(("test", self.test))
        return segments


def paper_segments() -> Segments:
    """Return KTD-Fin's segments: training to 2022, validation in 2023, test from 2024-01-01 to
    2026-04-10.

    The paper gives two start years for training: 2008 in section 4.1 and Table 4, which is used
    here, and 2015 in section 1.
    """
    return Segments(
        SegmentDays("2008-01-01", "2022-12-31"),
        SegmentDays("2023-01-01", "2023-12-31"),
        SegmentDays("2024-01-01", "2026-04-10"),
    )


@dataclass(frozen=True, slots=True)
class SegmentSplit:
    """Segments as requested and as used.

    The used segments are restricted to trading days in the snapshot on which all factors have full
    windows. Training and validation are purged, so that their labels use no price after the last
    requested day.
    """

    wanted: Segments
    used: Segments


def make_split(snapshot: MarketSnapshot, wanted: Segments) -> SegmentSplit:
    """Restrict and purge segments for a snapshot.

    Raises ConfigError if days are malformed, or if segments overlap or are out of order. Raises
    DataError if a segment has no days left, or if the snapshot's assets have different calendars:
    sequences and labels would then include days on which some assets don't trade.
    """
    calendars = sorted(set(snapshot.calendars))
    if len(calendars) > 1:
        raise DataError(
            f"snapshot {snapshot.meta.name} has assets of {len(calendars)} calendars"
            f" ({', '.join(name or 'not known' for name in calendars)}); train on a market of one"
        )

    used: dict[str, SegmentDays] = {}
    before = parse_day("0001-01-01")
    for name, requested in wanted.items():
        first = parse_day(requested.first, f"{name} days: ", ConfigError)
        last = parse_day(requested.last, f"{name} days: ", ConfigError)
        if not before < first <= last:
            raise ConfigError(
                f"{name} days {first}…{last}: segments are in order and share no day; give train,"
                " valid, test in turn"
            )

        before = last
        start = max(FIRST_ROW, int(np.searchsorted(snapshot.days, first)))
        stop = int(np.searchsorted(snapshot.days, last, side="right"))
        if name != "test":
            stop -= LABEL_REACH
        if start >= stop:
            raise DataError(_out_of_reach(snapshot, name, requested))

        used[name] = SegmentDays(str(snapshot.days[start]), str(snapshot.days[stop - 1]))

    return SegmentSplit(wanted, Segments(used["train"], used["valid"], used.get("test")))


def _out_of_reach(snapshot: MarketSnapshot, name: str, requested: SegmentDays) -> str:
    days = snapshot.days
    if len(days) <= FIRST_ROW:
        return (
            f"snapshot {snapshot.meta.name} has {len(days)} days, and factors need {FIRST_ROW + 1};"
            " give data of more days"
        )
    return (
        f"{name} days {requested.first}…{requested.last}: none is left of snapshot"
        f" {snapshot.meta.name}, with all factors from {days[FIRST_ROW]} to {days[-1]} (training"
        f" and validation lose {LABEL_REACH} days at their ends); give other {name} days, or data"
        " that reach further"
    )


# ---- labels and samples


def label_rows(snapshot: MarketSnapshot, rows: range, label: Label) -> FloatArray:
    """Return labels as defined in `LABELS`, [T, N]; NaN if a price is missing or is after the end
    of the data. Raises ConfigError if the label is unknown.
    """
    if label not in LABELS:
        raise ConfigError(f"label {label!r} is unknown; give one of {', '.join(LABELS)}")

    prices = snapshot.adjusted_close if label == "qlib" else snapshot.adjusted_open
    labels = np.full((len(rows), prices.shape[1]), np.nan)
    # After the close of day t, a decision buys at t+1 and sells at t+2.
    count = max(0, min(rows.stop, len(prices) - LABEL_REACH) - rows.start)
    sold_from = rows.start + LABEL_REACH
    bought = prices[sold_from - 1 : sold_from - 1 + count]
    sold = prices[sold_from : sold_from + count]
    labels[:count] = sold / bought - 1.0

    return labels


@dataclass(frozen=True)
class Samples:
    """Rows of a snapshot that are used in training and evaluation.

    A sample is an index member with a label on a day in a segment. Undefined features (NaN) do not
    exclude a sample; they are scaled to 0, which is the training median.
    """

    split: SegmentSplit
    label: Label
    #: row of the snapshot at which the samples begin, early enough before the first training day
    #: for sequences
    first: int
    days: DayArray  #: [T]
    codes: tuple[str, ...]
    features: FloatArray  #: [T, N, 9] raw factors for all names
    member: BoolArray  #: [T, N] whether a name is an index member on a day
    labels: FloatArray  #: [T, N] labels; NaN without a sample

    def rows(self, segment: str) -> slice:
        """Return the rows of a segment's used days. Raises DataError if the segment does
        not exist.
        """
        days: SegmentDays | None = getattr(self.split.used, segment, None)
        if days is None:
            raise DataError(f"segment {segment!r} has no days; give them")

        start = np.searchsorted(self.days, np.datetime64(days.first, "D"))
        stop = np.searchsorted(self.days, np.datetime64(days.last, "D"), side="right")
        return slice(int(start), int(stop))


def make_samples(
    snapshot: MarketSnapshot, split: SegmentSplit, label: Label = "qlib", days: int = 1
) -> Samples:
    """Return the samples for all segments.

    `days`: number of feature rows up to and including the first training day, if the snapshot has
    them, for sequences. Validation sequences can reach back into the training days; no label uses
    the days of the next segment. Raises DataError if training or validation has no sample.
    """
    used = split.used.items()
    start = snapshot.day_index(used[0][1].first)
    stop = snapshot.day_index(used[-1][1].last) + 1
    rows = range(max(0, start + 1 - days), stop)
    cut = slice(rows.start, rows.stop)
    features = np.ascontiguousarray(factor_panel(snapshot, rows).transpose(1, 2, 0))
    samples = Samples(
        split,
        label,
        rows.start,
        snapshot.days[cut],
        snapshot.codes,
        features,
        snapshot.member[cut],
        label_rows(snapshot, rows, label),
    )
    usable = np.zeros((len(rows), 1), dtype=bool)

    for name, _ in used:
        usable[samples.rows(name)] = True

    samples = replace(samples, labels=np.where(usable & samples.member, samples.labels, np.nan))
    for name in ("train", "valid"):
        if not np.isfinite(samples.labels[samples.rows(name)]).any():
            raise DataError(
                f"{name} days {split.used}: snapshot {snapshot.meta.name} has no index member with"
                f" a {label} label"
            )

    return samples


def shuffled_labels(samples: Samples, seed: int) -> Samples:
    """Return samples without a signal, as a control.

    Training and validation labels are permuted among the names of each day, which preserves the
    day's distribution. Test labels stay unchanged for evaluation.
    """
    rng = np.random.default_rng(derive_seed("shuffled labels", seed))
    labels = samples.labels.copy()
    for name in ("train", "valid"):
        for row in labels[samples.rows(name)]:
            labelled = np.flatnonzero(np.isfinite(row))
            row[labelled] = row[rng.permutation(labelled)]

    return replace(samples, labels=labels)


def normalised_labels(labels: FloatArray, norm: Norm) -> FloatArray:
    """Return labels that are normalised over the labelled names of each day, [T, N].

    `norm` names a pyqlib processor. CSRankNorm gives (percentile rank - 0.5) × 3.46, with tied
    ranks averaged. CSZScoreNorm gives a z-score with ddof 1, and NaN on a day on which all labels
    are equal. Raises ConfigError if `norm` is unknown.
    """
    if norm == "none":
        return labels

    if norm == "CSRankNorm":
        import pandas as pd  # noqa: PLC0415 - recipes are listed without it

        return (pd.DataFrame(labels).rank(axis=1, pct=True).to_numpy() - 0.5) * 3.46

    if norm == "CSZScoreNorm":
        with (
            np.errstate(all="ignore"),
            warnings.catch_warnings(action="ignore", category=RuntimeWarning),
        ):
            centred = labels - np.nanmean(labels, axis=1, keepdims=True)
            return np.asarray(centred / np.nanstd(labels, axis=1, ddof=1, keepdims=True))

    raise ConfigError(
        f"label normaliser {norm!r} is unknown; give CSRankNorm, CSZScoreNorm or none"
    )


# ---- scaling


@dataclass(frozen=True, eq=False)
class Scaler:
    """Robust z-scores of features, as in pyqlib's RobustZScoreNorm and Fillna.

    The median is subtracted, the result is divided by 1.4826 median absolute deviations and clipped
    at ±3, and NaN is replaced by 0. If a factor has no training values, its `center` and `scale`
    are NaN, so that it is always scaled to 0.
    """

    center: FloatArray  #: [9]
    scale: FloatArray  #: [9]

    @classmethod
    def fit(cls, samples: Samples) -> Scaler:
        """Fit to index members on training days only (with or without a label, as in pyqlib)."""
        rows = samples.rows("train")
        values = samples.features[rows][samples.member[rows]]
        with warnings.catch_warnings(action="ignore", category=RuntimeWarning):
            center = np.nanmedian(values, axis=0)
            deviation = np.nanmedian(np.abs(values - center), axis=0)

        return cls(center, (deviation + _EPSILON) * _MAD_TO_DEVIATION)

    def apply(self, features: FloatArray) -> FloatArray:
        """Return scaled features, [..., 9], without NaN."""
        scaled = np.clip((features - self.center) / self.scale, -CLIP, CLIP)
        return np.nan_to_num(scaled, copy=False, nan=0.0)


# ---- model inputs


def feature_names(layout: Layout, days: int) -> list[str]:
    """Return the names of a model's columns: the nine factors or, if unrolled, each factor at each
    number of days back, such as `RV_60_D59` … `RV_60_D0`.
    """
    if layout != "unrolled":
        return list(FACTOR_NAMES)

    names = []
    for factor in FACTOR_NAMES:
        names += [f"{factor}_D{back}" for back in reversed(range(days))]
    return names


def sequences(scaled: FloatArray, layout: Layout, days: int) -> FloatArray:
    """Return the `days` rows that end at each row of scaled features, as a view [T, n, 9, days],
    oldest first. `scaled`: [T, n, 9].

    Days before the start of the data are 0, as in pyqlib: unrolled sequences are filled by Fillna,
    and windows with the first row (ffill+bfill), on which no factor is known.
    """
    padded = np.concatenate([np.zeros((days - 1, *scaled.shape[1:])), scaled])
    if layout == "unrolled":
        # With 540 columns per sample, float32 halves the memory, and models use float32 anyway.
        padded = padded.astype(np.float32)
    return sliding_window_view(padded, days, axis=0)


def arrange_sequences(sequence: FloatArray, layout: Layout) -> FloatArray:
    """Return sequences [n, 9, days] in a model's layout.

    `flat` gives the last day, [n, 9]; `window` gives [n, days, 9]; `unrolled` gives [n, 9 × days],
    factor by factor, with each factor's days oldest first, as in Alpha360.
    """
    if layout == "flat":
        return np.ascontiguousarray(sequence[..., -1])
    if layout == "window":
        return np.ascontiguousarray(sequence.swapaxes(1, 2))
    return sequence.reshape(len(sequence), -1)


def step_input(history: FloatArray, scaler: Scaler, layout: Layout) -> FloatArray:
    """Return the input to a trained model at one trading step, in the shape of `arrange_sequences`.

    The input equals that day's sample in a dataset of `layout` and `days`. `history`: raw factors
    up to the step's day (`factor_history`), [days, n, 9], oldest first.
    """
    scaled = scaler.apply(history)
    last = sequences(scaled, layout, len(history))[-1]
    return arrange_sequences(last, layout)
