"""The days of forged episodes: returns that add up to their parts, series and decisions made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ktdeval.market import MarketSnapshot, window_rows

Array = npt.NDArray[np.float64]

_LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
_ATTRIBUTED = ("common", "industry", "style", "selection", "trading", "selection_daily")
_RULES = ("price_limit", "max_weight", "insufficient_cash")


@dataclass(frozen=True)
class Days:
    """The days of one window."""

    base_day: str  #: the trading day before
    days: list[str]  #: [n] trading days
    benchmark: Array  #: [n + 1] closes of the benchmark, that of the base day first


def days_of(market: MarketSnapshot, first: str, last: str) -> Days:
    """The days of a window, both ends included."""
    start, stop = window_rows(market.days, first, last)
    base, *days = (str(day) for day in market.days[start - 1 : stop])
    return Days(base, days, np.asarray(market.benchmark[start - 1 : stop]))


@dataclass(frozen=True)
class Episode:
    """One forged episode by day. `common`, `industry`, `style`, `selection` and `trading` are cumulated and add up to NAV - 1."""

    days: Days
    nav: Array
    gross_nav: Array
    invested: Array
    turnover: Array
    common: Array
    industry: Array
    style: Array
    selection: Array
    trading: Array
    selection_daily: Array

    def information_ratio(self) -> float:
        """Annualised mean over standard deviation of the daily difference to the benchmark."""
        levels = self.days.benchmark
        active = (self.nav[1:] / self.nav[:-1]) - (levels[1:] / levels[:-1])
        return float(np.sqrt(252) * active.mean() / active.std(ddof=1))

    def linked(self, factors: Sequence[str]) -> dict[str, float]:
        """The linked lines of the whole episode: the style return in equal parts, all of trading as fees and timing."""
        fees = float(self.nav[-1] - self.gross_nav[-1])
        style = {name: float(self.style[-1]) / len(factors) for name in factors}
        rest = {"fees": fees, "timing": float(self.trading[-1]) - fees, "rounding": 0.0}
        return {**style, **rest, **{name: float(getattr(self, name)[-1]) for name in ("common", "industry", "selection")}}


def play_episode(days: Days, skill: float, beta: float, rng: np.random.Generator) -> Episode:
    """Draw an episode: returns of market and industries (a fifth of it), style, selection and trading; the NAV that they make."""
    n = len(days.days)
    market = days.benchmark[1:] / days.benchmark[:-1] - 1
    invested = np.clip(beta + np.cumsum(rng.normal(0, 0.01, n)), 0.3, 1.0)
    turnover = rng.gamma(1.2, 0.05, n)
    selection = rng.normal(skill, 0.006, n)
    fees = -0.001 * turnover
    parts = np.array([invested * market, rng.normal(0.0001, 0.0025, n), selection, fees + rng.normal(0, 0.0004, n)])
    nav = np.concatenate([[1.0], np.cumprod(1 + parts.sum(axis=0))])
    gross = np.concatenate([[1.0], np.cumprod(1 + parts.sum(axis=0) - fees)])
    market, style, selected, trading = np.cumsum(parts * nav[:-1], axis=1)
    return Episode(days, nav, gross, invested, turnover, 0.8 * market, 0.2 * market, style, selected, trading, selection)


def forge_series(
    card_id: str, played: Sequence[tuple[Mapping[str, Any], Episode]], envelope: bool, rng: np.random.Generator
) -> dict[str, Any]:
    """A series document of a card."""
    return {"schema_version": 1, "card": card_id, "episodes": [_series(entry, each, envelope, rng) for entry, each in played]}


def _series(entry: Mapping[str, Any], episode: Episode, envelope: bool, rng: np.random.Generator) -> dict[str, Any]:
    days = episode.days
    alpha = entry["metrics"]["selection_alpha"]
    attributed = alpha["value"] is not None
    detail = alpha["detail"] if attributed else {}
    return {
        "id": entry["id"],
        "window": entry["window"],
        "seed": entry["seed"],
        "base_day": days.base_day,
        "days": days.days,
        "benchmark": six(days.benchmark / days.benchmark[0]),
        "benchmark_reason": None,
        "names": [int(count) for count in rng.integers(4, 20, len(days.days))],
        **{name: six(getattr(episode, name)) for name in ("nav", "gross_nav", "invested", "turnover")},
        **{name: six(getattr(episode, name)) if attributed else None for name in _ATTRIBUTED},
        "exposures": {name: six([value])[0] for name, value in detail["mean_exposures"].items()} if attributed else None,
        "attribution_reason": None if attributed else alpha["reason"],
        "envelope": _envelope(episode, rng) if envelope else None,
        "envelope_reason": None if envelope else "the episode has no trades to imitate",
    }


def _envelope(episode: Episode, rng: np.random.Generator) -> dict[str, Any]:
    middle = episode.days.benchmark / episode.days.benchmark[0]
    width = 0.01 * np.sqrt(np.arange(len(middle)))
    bands = [six(middle + shift * width) for shift in (-1.6, -0.7, 0.0, 0.7, 1.6)]
    beaten = int(np.sum(rng.normal(middle[-1], max(width[-1], 1e-9), 200) < episode.nav[-1]))
    return {"levels": list(_LEVELS), "bands": bands, "rank": beaten / 200, "p_value": (1 + 200 - beaten) / 201, "paths": 200}


def forge_decisions(
    card_id: str,
    played: Sequence[tuple[Mapping[str, Any], Episode]],
    codes: Sequence[str],
    hostile: Sequence[str],
    rng: np.random.Generator,
) -> dict[str, Any]:
    """A decisions document of a card; `hostile` texts are mixed into the reasons."""
    episodes = []
    for entry, episode in played:
        book = _Book([codes[index] for index in rng.choice(len(codes), 12, replace=False)], hostile, rng)
        days = episode.days
        before = [days.base_day, *days.days]
        steps = [book.step(before[index], day, float(episode.invested[index])) for index, day in enumerate(days.days)]
        episodes.append({"id": entry["id"], "window": entry["window"], "seed": entry["seed"], "steps": steps})
    return {"schema_version": 1, "card": card_id, "episodes": episodes}


class _Book:
    """Orders and holdings of one episode, from a short list of names."""

    def __init__(self, codes: Sequence[str], hostile: Sequence[str], rng: np.random.Generator) -> None:
        self._codes, self._hostile, self._rng = codes, hostile, rng

    def step(self, decided_on: str, day: str, invested: float) -> dict[str, Any]:
        """One day."""
        rng = self._rng
        orders = [self._order() for _ in range(int(rng.integers(0, 3)))]
        weights = np.sort(rng.dirichlet(np.full(8, 4.0)))[::-1] * invested
        return {
            "day": day,
            "decided_on": decided_on,
            "by": "model" if rng.random() > 0.03 else "model_after_retry",
            "why": "Rotated into names with rising volume." if orders else "No change: the ranking moved little.",
            "orders": orders,
            "holdings": [[code, float(f"{weight:.4g}")] for code, weight in zip(self._codes, weights, strict=False)],
        }

    def _order(self) -> dict[str, Any]:
        rng = self._rng
        side, is_filled = ("BUY", "SELL")[int(rng.integers(2))], rng.random() > 0.1
        reason = f"{'Adds to' if side == 'BUY' else 'Takes profit in'} a name with a 20-day return of {rng.normal(0, 8):.1f} %."
        if self._hostile:
            reason = self._hostile[int(rng.integers(len(self._hostile)))]
        return {
            "code": self._codes[int(rng.integers(len(self._codes)))],
            "side": side,
            "asked": f"{int(rng.integers(2, 11))} %",
            "filled": int(rng.integers(1, 40)) * 100 if is_filled else 0,
            "price": round(float(rng.uniform(5, 80)), 2) if is_filled else None,
            "status": "filled" if is_filled else "rejected",
            "rule": None if is_filled else _RULES[int(rng.integers(3))],
            "reason": reason,
        }


def six(values: Array | Sequence[float]) -> list[float]:
    """Rounded to six significant digits."""
    return [float(f"{value:.6g}") for value in values]
