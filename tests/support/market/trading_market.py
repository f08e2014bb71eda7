"""Small markets, as literals and as parts of larger ones, and a task on one as an episode has it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ktdeval.market.snapshots.snapshot import BAR_FIELDS, MarketSnapshot, SnapshotMeta
from ktdeval.task_api import EpisodeSpec, Window

CODES = {
    "main": "600001.SH",
    "main2": "000002.SZ",
    "chinext": "300003.SZ",
    "star": "688004.SH",
    "bse": "830005.BJ",
}


def grid(rows: Sequence[Sequence[float | None]]) -> np.ndarray:
    """[days, assets] floats; None is NaN."""
    return np.array(rows, dtype=float)


def make_market(
    codes: Sequence[str],
    opens: Sequence[Sequence[float | None]],
    closes: Sequence[Sequence[float | None]] | None = None,
    *,
    factor: Sequence[Sequence[float]] | None = None,
    volume: Sequence[Sequence[float | None]] | None = None,
    member: Sequence[Sequence[bool]] | None = None,
    first: str = "1970-01-01",
    **more: Any,
) -> MarketSnapshot:
    """A snapshot from rows of days, from 1970 on; closes are the opens, the factor is 1, all trade
    and all are members unless given otherwise. `more`: further fields of the snapshot.
    """
    open_ = grid(opens)
    close = open_.copy() if closes is None else grid(closes)
    order = np.argsort(np.array(codes))

    assert list(order) == list(range(len(codes))), "codes must ascend, as in every snapshot"

    volumes = np.where(np.isnan(open_), 0.0, 1e6) if volume is None else grid(volume)
    n_days = len(open_)

    return MarketSnapshot(
        meta=SnapshotMeta("tiny", "literals of a test", True, True, "000300.SH"),
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
        factor=np.ones_like(open_) if factor is None else grid(factor),
        member=np.ones(open_.shape, dtype=bool) if member is None else np.array(member, dtype=bool),
        indices={"000300.SH": np.full(n_days, 1000.0)},
        index_names={"000300.SH": "CSI300"},
        **more,
    )


def part_of_market(market: MarketSnapshot, rows: int, columns: Sequence[int]) -> MarketSnapshot:
    """The first `rows` days of a market, of the assets in some columns."""
    grids = {name: getattr(market, name)[:rows, columns] for name in (*BAR_FIELDS, "member")}
    labels: dict[str, Any] = {}

    of_assets = ["codes", "names", "industries"]
    if market.instruments:
        of_assets.append("instruments")
    for name in of_assets:
        labels[name] = tuple(getattr(market, name)[column] for column in columns)

    return replace(
        market,
        id="",
        days=market.days[:rows],
        indices={code: levels[:rows] for code, levels in market.indices.items()},
        **labels,
        **grids,
    )


def market_scene(
    task: Any, market: MarketSnapshot, window: Window, seed: int = 0, name: str = ""
) -> Any:
    """The scene of an episode of a window; under another `name` it has that task's handles."""
    return task.scene(market_spec(task, window, seed, name), market)


def market_spec(task: Any, window: Window, seed: int = 0, name: str = "") -> EpisodeSpec:
    """An episode of a window."""
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
