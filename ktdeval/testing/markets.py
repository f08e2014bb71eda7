"""Small markets for tests, hand-made or generated from a seed. Their codes do not belong to real
securities.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ktdeval.market.snapshots.snapshot import DayArray, FloatArray, MarketSnapshot, SnapshotMeta

INDEX = "609300.IDX"
_CODES = ("609{:03d}.SH", "009{:03d}.SZ", "309{:03d}.SZ", "6889{:02d}.SH")

#: code -> one value per day; None if the asset has no bar on that day
Rows = Mapping[str, Sequence[float | None]]


@dataclass(frozen=True)
class SnapshotDetails:
    """Details of a `tiny_snapshot` other than its closes. Each detail has a default."""

    opens: Rows = field(default_factory=dict)  #: opening prices; by default, the day's close
    #: shares traded; by default, 1,000,000 on days with a bar, and 0 (suspended) on others
    volumes: Rows = field(default_factory=dict)
    factors: Rows = field(default_factory=dict)  #: cumulative adjustment factors; by default, 1
    #: whether a code is in the index on each day; by default, always
    members: Mapping[str, Sequence[bool]] = field(default_factory=dict)
    #: industry of each code; by default, `industry A`
    industries: Mapping[str, str] = field(default_factory=dict)
    #: closing levels of the index; by default, 1000 on all days
    benchmark: Sequence[float] | None = None


def tiny_snapshot(
    closes: Rows, details: SnapshotDetails | None = None, first_day: str = "2024-01-02"
) -> MarketSnapshot:
    """Return a market with these closes, where None means a day without a bar.

    Days are consecutive weekdays from `first_day`, not sessions of an exchange. Highs and lows span
    open and close, and the amount is close times volume.

    Example:
        tiny_snapshot({"609001.SH": [10.0, 10.5, None]}).close.shape  # (3, 1)
    """
    details = details or SnapshotDetails()
    codes = sorted(closes)
    n_days = len(next(iter(closes.values())))
    close = _grid(closes, codes, np.full((n_days, len(codes)), np.nan))
    open_ = _grid(details.opens, codes, close.copy())
    volume = _grid(details.volumes, codes, np.where(np.isnan(close), 0.0, 1e6))
    member = np.ones((n_days, len(codes)), dtype=bool)

    for code, flags in details.members.items():
        member[:, codes.index(code)] = flags

    return MarketSnapshot(
        meta=SnapshotMeta(
            name="tiny",
            source="written by hand for a test",
            synthetic=True,
            has_factor=True,
            benchmark=INDEX,
        ),
        days=_weekdays(first_day, n_days),
        codes=tuple(codes),
        names=tuple(f"Testcorp {code[:6]}" for code in codes),
        industries=tuple(details.industries.get(code, "industry A") for code in codes),
        open=open_,
        high=np.fmax(open_, close),
        low=np.fmin(open_, close),
        close=close,
        volume=volume,
        amount=close * volume,
        factor=_grid(details.factors, codes, np.ones((n_days, len(codes)))),
        member=member,
        indices={INDEX: np.asarray(details.benchmark or [1000.0] * n_days, dtype=np.float64)},
        index_names={INDEX: "TEST300"},
        id="tiny",
    )


def random_snapshot(
    seed: int = 0, n_assets: int = 40, n_days: int = 320, first_day: str = "2023-01-02"
) -> MarketSnapshot:
    """Return a market of random walks on all boards, with a few suspensions and a benchmark. Equal
    seeds give equal markets.

    The default history is long enough for every factor; the year-long factors need 252 days before
    the first decision. There can be at most 300 assets.

    Example:
        random_snapshot(seed=7, n_assets=5, n_days=20).close.shape  # (20, 5)
    """
    rng = np.random.default_rng(seed)
    codes = sorted(_CODES[number % 4].format(number // 4) for number in range(n_assets))
    returns = rng.normal(0.0003, 0.02, (n_days, n_assets)) + rng.normal(0, 0.008, (n_days, 1))
    levels: FloatArray = np.exp(
        rng.uniform(1.5, 4.0, n_assets) + np.cumsum(np.clip(returns, -0.09, 0.09), axis=0)
    )
    close: FloatArray = np.round(levels, 2)
    open_: FloatArray = np.round(close * np.exp(rng.normal(0, 0.006, close.shape)), 2)
    suspended = rng.random(close.shape) < 0.003
    close[suspended], open_[suspended] = np.nan, np.nan
    volume = np.where(suspended, 0.0, np.round(np.exp(rng.normal(14, 0.5, close.shape)), -2))
    benchmark = 4000 * np.exp(np.cumsum(returns.mean(axis=1)))

    return MarketSnapshot(
        meta=SnapshotMeta(
            name=f"random-{seed}",
            source="random walks for a test",
            synthetic=True,
            has_factor=True,
            benchmark=INDEX,
        ),
        days=_weekdays(first_day, n_days),
        codes=tuple(codes),
        names=tuple(f"Testcorp {code[:6]}" for code in codes),
        industries=tuple(f"industry {'ABCDE'[number % 5]}" for number in range(n_assets)),
        open=open_,
        high=np.round(np.fmax(open_, close) * 1.004, 2),
        low=np.round(np.fmin(open_, close) * 0.996, 2),
        close=close,
        volume=volume,
        amount=np.round(close * volume, 2),
        factor=np.ones_like(close),
        member=np.ones(close.shape, dtype=bool),
        indices={INDEX: np.round(benchmark, 2)},
        index_names={INDEX: "TEST300"},
        id=f"random-{seed}-{n_assets}-{n_days}",
    )


def _grid(
    rows: Mapping[str, Sequence[float | None]], codes: Sequence[str], default: FloatArray
) -> FloatArray:
    for code, values in rows.items():
        default[:, codes.index(code)] = [np.nan if value is None else value for value in values]
    return default


def _weekdays(first_day: str, count: int) -> DayArray:
    return np.asarray(
        np.busday_offset(np.datetime64(first_day, "D"), np.arange(count), roll="forward")
    )
