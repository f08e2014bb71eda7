"""A small random market with everything that a KTD-Fin step can meet."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ktdeval.market.rules.calendar import sessions
from ktdeval.market.snapshots.snapshot import MarketSnapshot, SnapshotMeta
from ktdeval.task_api.episode_spec import EpisodeSpec, Window

FIRST = "2024-03-01"
LAST = "2024-03-29"


def small_market(assets: int = 48, seed: int = 11, first: str = "2022-12-12") -> MarketSnapshot:
    """About 310 days of `assets` names: all boards, suspensions, limit days, a split, a late
    listing, index changes.
    """
    days = sessions(first, "2024-04-19")
    rng = np.random.default_rng(seed)
    count = len(days)
    shape = (len(days), assets)
    codes = _codes(assets)
    limit = np.array(
        [
            0.2 if code.startswith(("30", "688", "689")) else 0.3 if code.endswith("BJ") else 0.1
            for code in codes
        ]
    )
    returns = np.clip(
        rng.normal(0.0003, 0.03, shape) + rng.normal(0, 0.01, (count, 1)), -limit, limit
    )
    fair = rng.uniform(4, 60, assets) * np.exp(np.cumsum(np.log1p(returns), axis=0))
    factor = np.ones(shape)
    factor[-30:, 3] = 2.0  # a two-for-one split
    close = np.round(fair / factor, 2)
    open_ = np.round(close * (1 + rng.normal(0, 0.004, shape)), 2)
    high = np.maximum(open_, close) + 0.02
    low = np.minimum(open_, close) - 0.02
    volume = np.round(rng.lognormal(14, 0.6, shape))
    silent = rng.random(shape) < 0.01
    silent[-18:-10, 5] = True  # a long suspension
    silent[:260, 7] = True  # a late listing

    for field in (open_, high, low, close):
        field[silent] = np.nan

    volume[silent] = 0.0
    member = np.ones(shape, dtype=bool)
    member[:, assets - 4 :] = False
    member[-22:, assets - 4 : assets - 2] = True
    member[-22:, :2] = False  # two names leave the index for two others
    level = 3500 * np.exp(np.cumsum(np.nanmean(returns, axis=1)))
    meta = SnapshotMeta(
        "small", "random numbers", synthetic=True, has_factor=True, benchmark="609900.SH"
    )

    return MarketSnapshot(
        meta=meta,
        days=days,
        codes=codes,
        names=tuple(f"Velmora Quastin {number}" for number in range(assets)),
        industries=tuple(f"Zephrite {number % 7}" for number in range(assets)),
        open=open_,
        high=high,
        low=low,
        close=close,
        volume=volume,
        amount=volume * np.nan_to_num(close),
        factor=factor,
        member=member,
        indices={"609900.SH": level, "609901.SH": level[::-1].copy()},
        index_names={"609900.SH": "Orbex Large", "609901.SH": "Orbex Small"},
        id="0" * 64,
    )


def _codes(assets: int) -> tuple[str, ...]:
    kinds = [("609", ".SH"), ("009", ".SZ"), ("309", ".SZ"), ("6889", ".SH"), ("889", ".BJ")]
    made = []
    for number in range(assets):
        head, tail = kinds[number % len(kinds)]
        made.append(f"{head}{number:0{6 - len(head)}d}{tail}")

    return tuple(sorted(made))


def poisoned(market: MarketSnapshot, row: int) -> MarketSnapshot:
    """The same market with every value after `row` replaced by garbage."""

    def spoil(values: np.ndarray) -> np.ndarray:
        spoiled = values.copy()
        spoiled[row + 1 :] = 7.77 if values.dtype == np.float64 else ~values[row + 1 :]
        return spoiled

    fields = {
        name: spoil(getattr(market, name))
        for name in ("open", "high", "low", "close", "volume", "amount", "member")
    }
    factor = market.factor.copy()
    factor[row + 1 :] *= 1.7  # garbage that the executor still takes: it refuses factors that leap

    return replace(
        market,
        **fields,
        factor=factor,
        indices={code: spoil(levels) for code, levels in market.indices.items()},
    )


def spec_of(
    task: str, mask: str, mode: str, seed: int = 0, model: str = "builtin/momentum"
) -> EpisodeSpec:
    """An episode on the small market."""
    return EpisodeSpec(
        task=task,
        task_version="1",
        task_hash="0",
        snapshot="0",
        mask=mask,
        mode=mode,
        window=Window("W", FIRST, LAST),
        model=model,
        model_args={},
        agent="react",
        agent_args={},
        seed=seed,
    )


def rows(table: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of a table payload by column."""
    return [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
