"""A random market of Chinese stocks with what makes real ones awkward."""

from __future__ import annotations

import numpy as np

from ktdeval.market.rules.calendar import sessions
from ktdeval.market.snapshots.snapshot import MarketSnapshot, SnapshotMeta

_LAST_DAY = "2024-04-19"
_KINDS = [("609", ".SH"), ("009", ".SZ"), ("309", ".SZ"), ("6889", ".SH"), ("889", ".BJ")]


def small_market(assets: int = 48, seed: int = 11, first: str = "2022-12-12") -> MarketSnapshot:
    """Return a market of random walks on all boards, on the sessions of the exchanges from `first`
    to 2024-04-19, with suspensions, days at the price limit, a split, a late listing and changes of
    the index. `assets` is at least 8. Equal arguments give equal markets.

    Example:
        small_market().close.shape  # (328, 48)
    """
    days = sessions(first, _LAST_DAY)
    rng = np.random.default_rng(seed)
    count = len(days)
    shape = (len(days), assets)
    codes = _codes(assets)
    limit = np.array([_price_limit(code) for code in codes])
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


def _price_limit(code: str) -> float:
    """Return the largest return of a day on the board of a code."""
    if code.startswith(("30", "688", "689")):
        return 0.2
    return 0.3 if code.endswith("BJ") else 0.1


def _codes(assets: int) -> tuple[str, ...]:
    made = []
    for number in range(assets):
        head, tail = _KINDS[number % len(_KINDS)]
        made.append(f"{head}{number:0{6 - len(head)}d}{tail}")

    return tuple(sorted(made))
