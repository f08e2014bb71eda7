"""Daily series of a card's episodes, derived from its records: what the ranking and the site know of each day."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from ktdeval.attribution import Attribution, attribute, attribution_problem
from ktdeval.cards import TradingCard
from ktdeval.contracts import EpisodeSpec
from ktdeval.errors import StoreError
from ktdeval.jsonio import JsonValue
from ktdeval.market import FloatArray, MarketSnapshot
from ktdeval.registry import Plugins
from ktdeval.runner import RunFolder
from ktdeval.stats import EnvelopeSettings, benchmark_levels, random_envelope
from ktdeval.trading import Ledger, TradingConfig
from ktdeval.typed import from_plain
from ktdeval_board.derived import Series

DIGITS = 6
"""Significant digits of all derived figures: a NAV to the hundredth of a basis point, and files of a third of the size."""

ENVELOPE = EnvelopeSettings()
"""Random traders beside each episode: the suite's own number and seed, so that anyone gets the same bands."""

_COMMON, _SELECTION = "common", "selection"
_TRADING = ("timing", "fees", "rounding")
_NO_PART: Mapping[str, JsonValue] = dict.fromkeys((_COMMON, "style", _SELECTION, "trading", "selection_daily", "exposures"))


def make_series(run: RunFolder, card_id: str, card: TradingCard, snapshot: MarketSnapshot, plugins: Plugins) -> Series:
    """Make the series of a trading card; equal records give equal values."""
    config = plugins.make_task(card.task.name).trading
    episodes: list[JsonValue] = []
    for entry in card.episodes:
        ledger = run.load_ledger(episode_spec(run, entry.id))
        facts: dict[str, JsonValue] = {"id": entry.id, "window": entry.window, "seed": entry.seed}
        episodes.append(facts | _episode(ledger, snapshot, config))
    return from_plain(rounded({"schema_version": 1, "card": card_id, "episodes": episodes}), Series, "series")


def episode_spec(run: RunFolder, episode_id: str) -> EpisodeSpec:
    """Return the plan's episode of an id."""
    for spec in run.manifest.specs:
        if spec.id == episode_id:
            return spec
    raise StoreError(f"{run.path}: the run has no episode {episode_id}; its card is of another run")


def rounded(value: JsonValue) -> JsonValue:
    """A JSON value with each float to `DIGITS` significant digits; one that is not finite becomes null."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") + 0.0 if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {name: rounded(member) for name, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(member) for member in value]
    return value


def _episode(ledger: Ledger, snapshot: MarketSnapshot, config: TradingConfig) -> dict[str, JsonValue]:
    nav, opens = ledger.column("nav_minor"), ledger.column("open_nav_minor")
    traded = np.array([sum(order.notional_minor for order in step.orders) for step in ledger.steps])
    return {
        "base_day": str(ledger.base_day),
        "days": [str(day) for day in ledger.days],
        "nav": (ledger.nav / ledger.nav[0]).tolist(),
        "gross_nav": _gross_nav(ledger),
        **_benchmark(ledger, snapshot),
        "invested": _ratio(ledger.column("holdings_minor"), nav).tolist(),
        "names": [len(step.positions) for step in ledger.steps],
        "turnover": _ratio(traded, opens).tolist(),
        **_attribution(ledger, snapshot),
        **_envelope(ledger, snapshot, config),
    }


def _ratio(part: npt.NDArray[np.int64], whole: npt.NDArray[np.int64]) -> FloatArray:
    """`part / whole`, 0 where the whole is nothing."""
    return np.divide(part, whole, out=np.zeros(len(whole)), where=whole > 0)


def _gross_nav(ledger: Ledger) -> list[float]:
    """[steps + 1] the daily returns before fees, compounded: what was paid in fees is not there to be earned on either way."""
    fees = np.array([sum(order.fee_minor for order in step.orders) for step in ledger.steps], dtype=np.float64)
    before = ledger.nav[:-1] * 100.0
    growth = np.divide(ledger.nav[1:] * 100.0 + fees, before, out=np.ones(len(fees)), where=before > 0.0)
    return [1.0, *np.cumprod(growth).tolist()]


def _benchmark(ledger: Ledger, snapshot: MarketSnapshot) -> dict[str, JsonValue]:
    levels = benchmark_levels(ledger, snapshot)
    if not (np.isfinite(levels) & (levels > 0.0)).all():
        return {"benchmark": None, "benchmark_reason": "the market lacks a level of the benchmark"}
    return {"benchmark": (levels / levels[0]).tolist(), "benchmark_reason": None}


def _attribution(ledger: Ledger, snapshot: MarketSnapshot) -> dict[str, JsonValue]:
    problem = attribution_problem(ledger, snapshot)
    if problem is not None:
        return {**_NO_PART, "attribution_reason": problem}
    parts = attribute(ledger, snapshot)
    exposures = dict(zip(parts.factor_names, parts.mean_exposures().tolist(), strict=True))
    found: dict[str, JsonValue] = {**_NO_PART, "selection_daily": parts.selection.tolist(), "exposures": exposures}
    reason = parts.linked.reason
    return {**found, **(_linked(parts) if reason is None else {}), "attribution_reason": reason}


def _linked(parts: Attribution) -> dict[str, JsonValue]:
    columns = dict(zip(parts.line_names, np.cumsum(parts.linked_lines, axis=0).T, strict=True))
    trading = sum(columns.pop(name) for name in _TRADING)
    common, selection = columns.pop(_COMMON), columns.pop(_SELECTION)
    style = sum(columns.values(), start=np.zeros(len(common)))
    lines = {_COMMON: common, "style": style, _SELECTION: selection, "trading": trading}
    return {name: np.asarray(line).tolist() for name, line in lines.items()}


def _envelope(ledger: Ledger, snapshot: MarketSnapshot, config: TradingConfig) -> dict[str, JsonValue]:
    found = random_envelope(ledger, snapshot, config, ENVELOPE)
    if found.rank is None:  # without a fill the random traders do nothing either, so that bands say nothing
        return {"envelope": None, "envelope_reason": found.reason}
    bands = found.bands / (ledger.nav[0])
    envelope: dict[str, JsonValue] = {
        "levels": list(found.levels),
        "bands": bands.tolist(),
        "rank": found.rank,
        "p_value": found.p_value,
        "paths": len(found.returns),
    }
    return {"envelope": envelope, "envelope_reason": None}
