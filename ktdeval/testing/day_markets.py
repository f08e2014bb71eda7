"""Markets by hand, a row a day, and scenes of tasks on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ktdeval.market.snapshots.snapshot import FloatArray, MarketSnapshot, SnapshotMeta
from ktdeval.task_api.episode_spec import EpisodeSpec, Window
from ktdeval.task_api.trading_task import Scene, Task

_INDEX = "000300.SH"

#: a row for each day, with a value for each asset; None if the asset has no value on that day
DayRows = Sequence[Sequence[float | None]]


def snapshot_of_days(
    codes: Sequence[str],
    opens: DayRows,
    closes: DayRows | None = None,
    *,
    factor: DayRows | None = None,
    volume: DayRows | None = None,
    first: str = "1970-01-01",
    **more: Any,
) -> MarketSnapshot:
    """Return a market with a row for each day from `first` on, weekends included. Days are thus
    numbers, and a test may use any; `tiny_snapshot` has a list for each asset and weekdays.

    Closes are the opens, the factor is 1, and the volume 1,000,000 on days with an open, unless
    given. `codes` ascend. `more`: other fields of the snapshot; `member` has rows of truth values,
    and all assets are members without it.

    Example:
        snapshot_of_days(["609001.SH", "609002.SH"], [[10.0, 5.0], [10.5, None]]).close.shape  # (2, 2)
    """
    open_ = _grid(opens)
    close = open_.copy() if closes is None else _grid(closes)

    assert list(codes) == sorted(codes), "codes must ascend, as in every snapshot"

    volumes = np.where(np.isnan(open_), 0.0, 1e6) if volume is None else _grid(volume)
    n_days = len(open_)
    member = more.pop("member", None)
    members = np.ones(open_.shape, dtype=bool) if member is None else np.array(member, dtype=bool)

    return MarketSnapshot(
        meta=SnapshotMeta("tiny", "literals of a test", True, True, _INDEX),
        days=np.datetime64(first) + np.arange(n_days),
        codes=tuple(codes),
        names=tuple(codes),
        industries=("unknown",) * len(codes),
        open=open_,
        high=np.fmax(open_, close),
        low=np.fmin(open_, close),
        close=close,
        volume=volumes,
        amount=volumes * close,
        factor=np.ones_like(open_) if factor is None else _grid(factor),
        member=members,
        indices={_INDEX: np.full(n_days, 1000.0)},
        index_names={_INDEX: "CSI300"},
        **more,
    )


def _grid(rows: DayRows) -> FloatArray:
    return np.array(rows, dtype=float)


def scene_on(
    task: Task, market: MarketSnapshot, window: Window, seed: int = 0, name: str = ""
) -> Scene:
    """Return the scene of an episode of a task in a window of a market, as a run makes it. Masks
    draw labels by the name of a task: `name` gives it those of another one.

    Example:
        task = load_plugins().make_task("market_blinded")
        scene_on(task, random_snapshot(), api.Window("W", "2024-03-04", "2024-03-08"))
    """
    return task.scene(spec_on(task, window, seed, name), market)


def spec_on(task: Task, window: Window, seed: int = 0, name: str = "") -> EpisodeSpec:
    """Return the spec of an episode of a task in a window, of no stored market."""
    return EpisodeSpec(
        task=name or task.name,
        task_version="1",
        task_hash="",
        snapshot="0" * 64,
        mask=task.mask,
        mode="market",
        window=window,
        model="builtin/hold",
        model_args={},
        agent="react",
        agent_args={},
        seed=seed,
    )
