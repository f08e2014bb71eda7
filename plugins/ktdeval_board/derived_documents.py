"""Documents derived by the check: daily series of episodes, daily orders and holdings, and the
board's markets over its windows.
"""

from __future__ import annotations

import math
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from ktdeval.attribution import attribute, attribution_problem
from ktdeval.cards import TradingCard, gather_snapshot
from ktdeval.errors import StoreError
from ktdeval.harness import TranscriptEntry, step_signals
from ktdeval.market import FloatArray, MarketSnapshot, window_rows
from ktdeval.runner import RunFolder
from ktdeval.stats import (
    NO_VARIANCE,
    EnvelopeSettings,
    benchmark_levels,
    envelope_problem,
    level_problem,
    mean,
    random_envelope,
    simple_returns,
    standard_deviation,
)
from ktdeval.task_api import EpisodeSpec
from ktdeval.trading import Ledger, OrderRecord, StepRecord, TradingConfig, trading_rules
from ktdeval.values import JsonValue, from_plain
from ktdeval_board.document_types import Decisions, Series, round_floats
from ktdeval_board.market_document import DESCRIBED, Market, Regime
from ktdeval_board.rules import Rules, SnapshotRule, WindowRule

ENVELOPE = EnvelopeSettings()
"""Random traders for each episode, with the suite's own number and seed, so that the bands can be
reproduced.
"""

#: Figure that exists only for tasks whose series include the price of a single asset
_AGAINST_BUY_AND_HOLD = "ama_gap_to_buy_and_hold"

_PARTS = ("common", "industry", "style", "selection", "trading", "selection_daily", "exposures")
_NO_PART: Mapping[str, JsonValue] = dict.fromkeys(_PARTS)


def make_series(
    run: RunFolder, card_id: str, card: TradingCard, snapshot: MarketSnapshot
) -> Series:
    """Return the series of a trading card. Equal records give equal series."""
    config = trading_rules(card.task.config.get("trading") or {}, "trading rules on the card")
    episodes: list[JsonValue] = []
    for entry in card.episodes:
        ledger = run.load_ledger(episode_spec(run, entry.id))
        episode = _episode(ledger, snapshot, config)
        episode["id"] = entry.id
        episode["window"] = entry.window
        episode["seed"] = entry.seed
        asset = _asset_levels(ledger, snapshot, card)
        if asset is not None:
            episode["asset"] = asset

        episodes.append(episode)

    document: dict[str, JsonValue] = {"schema_version": 1, "card": card_id, "episodes": episodes}
    return from_plain(round_floats(document), Series, "series")


def episode_spec(run: RunFolder, episode_id: str) -> EpisodeSpec:
    """Return the planned episode with this id. Raises StoreError if the run has no such episode."""
    for spec in run.manifest.specs:
        if spec.id == episode_id:
            return spec

    raise StoreError(
        f"{run.path}: the run has no episode {episode_id}; its card belongs to another run"
    )


def _episode(
    ledger: Ledger, snapshot: MarketSnapshot, config: TradingConfig
) -> dict[str, JsonValue]:
    nav = ledger.column("nav_minor")
    opens = ledger.column("open_nav_minor")
    traded = np.array([step.traded_minor for step in ledger.steps])

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
    """Return `part / whole`, or 0 if the whole is not positive."""
    return np.divide(part, whole, out=np.zeros(len(whole)), where=whole > 0)


def _gross_nav(ledger: Ledger) -> list[float]:
    """Return the [steps + 1] NAV, compounded from daily returns before fees. Unpaid fees are
    treated as if they stayed invested.
    """
    fees = np.array([step.costs_minor for step in ledger.steps], dtype=np.float64)
    minor = float(ledger.minor_per_unit)
    before = ledger.nav[:-1] * minor
    growth = np.divide(
        ledger.nav[1:] * minor + fees, before, out=np.ones(len(fees)), where=before > 0.0
    )

    return [1.0, *np.cumprod(growth).tolist()]


def _benchmark(ledger: Ledger, snapshot: MarketSnapshot) -> dict[str, JsonValue]:
    levels = benchmark_levels(ledger, snapshot)
    if level_problem(levels):
        return {"benchmark": None, "benchmark_reason": "the market lacks a level of the benchmark"}

    return {"benchmark": (levels / levels[0]).tolist(), "benchmark_reason": None}


def _asset_levels(
    ledger: Ledger, snapshot: MarketSnapshot, card: TradingCard
) -> list[float] | None:
    """Return the price of the single asset in a task whose figures compare with Buy & Hold; None
    for other tasks.

    Days without a price are forward-filled, and leading days are filled with the first price.
    """
    assets = card.task.config.get("assets")
    if _AGAINST_BUY_AND_HOLD not in card.metrics:
        return None
    if not isinstance(assets, list) or len(assets) != 1:
        return None

    column = snapshot.asset_index[assets[0]]
    rows = [snapshot.day_index(day) for day in (ledger.base_day, *ledger.days)]
    prices = snapshot.adjusted_close[rows, column]
    known = np.isfinite(prices)
    if not known.any():
        return None

    latest = np.maximum.accumulate(np.where(known, np.arange(len(rows)), int(np.argmax(known))))
    filled = prices[latest]
    relative: list[float] = (filled / filled[0]).tolist()
    return relative


def _attribution(ledger: Ledger, snapshot: MarketSnapshot) -> dict[str, JsonValue]:
    problem = attribution_problem(ledger, snapshot)
    if problem is not None:
        return {**_NO_PART, "attribution_reason": problem}

    parts = attribute(ledger, snapshot)
    exposures = dict(zip(parts.factor_names, parts.mean_exposures().tolist(), strict=True))
    lines: dict[str, JsonValue] = {
        **_NO_PART,
        "selection_daily": parts.selection.tolist(),
        "exposures": exposures,
    }

    if parts.linked.reason is None:
        linked = np.cumsum(parts.linked_lines, axis=0)
        for name, line in parts.parts(linked).items():
            lines[name] = line.tolist()

    return {**lines, "attribution_reason": parts.linked.reason}


def _envelope(
    ledger: Ledger, snapshot: MarketSnapshot, config: TradingConfig
) -> dict[str, JsonValue]:
    problem = envelope_problem(ledger)
    if problem:
        return {"envelope": None, "envelope_reason": problem}

    envelope = random_envelope(ledger, snapshot, config, ENVELOPE)
    # If nothing was filled, the random traders do not trade either, so bands are meaningless.
    if envelope.rank is None:
        return {"envelope": None, "envelope_reason": envelope.reason}

    return {
        "envelope": {
            "levels": list(envelope.levels),
            "bands": (envelope.bands / ledger.nav[0]).tolist(),
            "rank": envelope.rank,
            "p_value": envelope.p_value,
            "paths": len(envelope.returns),
        },
        "envelope_reason": None,
    }


WHY_LENGTH = 300
REASON_LENGTH = 160
_CODE_LENGTH = 40
#: Figure that exists only for tasks in which the signals of analyst teams are counted
_OF_A_FUND = "df_effectiveness"
_MAX_ANALYSTS = 40
_UNSEEN = frozenset({"Cc", "Cf", "Co", "Cs", "Zl", "Zp"})
"""Unicode categories that are invisible, break lines or reverse text: a page could appear to show
different text.
"""


def make_decisions(run: RunFolder, card_id: str, card: TradingCard) -> Decisions:
    """Return the decisions of a trading card. Equal records give equal decisions."""
    episodes: list[JsonValue] = []
    for entry in card.episodes:
        spec = episode_spec(run, entry.id)
        ledger = run.load_ledger(spec)
        episode: dict[str, JsonValue] = {
            "id": entry.id,
            "window": entry.window,
            "seed": entry.seed,
            "steps": [_step(step, ledger) for step in ledger.steps],
        }
        if _OF_A_FUND in card.metrics:
            signals = signal_counts(run.load_transcript(spec))
            if signals:
                episode["signals"] = signals

        episodes.append(episode)

    document: dict[str, JsonValue] = {"schema_version": 1, "card": card_id, "episodes": episodes}
    return from_plain(round_floats(document), Decisions, "decisions")


def signal_counts(talks: Iterable[TranscriptEntry]) -> dict[str, dict[str, int]]:
    """Count how often each analyst in a team gave each signal in an episode. Only the first
    `_MAX_ANALYSTS` analysts by name are included.
    """
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for talk in talks:
        signals = step_signals(talk)
        for role, answer in signals.answers.items():
            given = [answer.get(asset, "no_signal") for asset in signals.assets]
            counts[plain_line(role, _CODE_LENGTH)].update(given)

    return {role: dict(sorted(counts[role].items())) for role in sorted(counts)[:_MAX_ANALYSTS]}


def plain_line(text: str, length: int) -> str:
    """Return text by a model on one line, without invisible characters. Long text is truncated to
    `length` and ends with an ellipsis.
    """
    visible = []
    for character in text:
        visible.append(" " if unicodedata.category(character) in _UNSEEN else character)

    line = " ".join("".join(visible).split())
    if len(line) <= length:
        return line

    return f"{line[: length - 1].rstrip()}…"


def _step(step: StepRecord, ledger: Ledger) -> JsonValue:
    weights = step.weights
    holdings: list[JsonValue] = []
    for each in sorted(step.positions, key=lambda position: (-position.value_minor, position.code)):
        holdings.append([each.code, weights[each.code] if step.nav_minor > 0 else 0.0])

    return {
        "day": step.filled_on,
        "decided_on": step.decided_on,
        "by": step.provenance,
        "why": plain_line(step.overall_reason, WHY_LENGTH),
        "orders": [_order_entry(order, ledger) for order in step.orders],
        "holdings": holdings,
    }


def _order_entry(order: OrderRecord, ledger: Ledger) -> JsonValue:
    ticks, steps, _ = ledger.scale(order.code)
    return {
        "code": plain_line(order.code or order.stock_id or "?", _CODE_LENGTH) or "?",
        "side": order.side,
        "asked": describe_order(order, steps),
        "filled": order.filled_shares if steps == 1 else order.filled_shares / steps,
        "price": order.price_ticks / ticks if order.filled_shares else None,
        "status": order.status,
        "rule": order.rule,
        "reason": plain_line(order.reason, REASON_LENGTH),
    }


def describe_order(order: OrderRecord, steps: int = 1) -> str:
    """Return an order's target weight or shares as text. `steps` is the number of quantity steps
    per share.
    """
    weight = order.target_weight
    shares = order.shares
    if weight is not None:
        return f"{100.0 * weight:.4g} %"
    if steps > 1 and shares is not None:
        return f"{shares / steps:.10g} shares"

    return "1 share" if shares == 1 else f"{shares} shares"


_MOVE = 0.05
_FALL = 0.10
REGIME_RULE = (
    f"bull: the benchmark rose by {_MOVE:.0%} or more from the close before the window to its last"
    f" close; bear: it fell by as much; of the others volatile: it fell by {_FALL:.0%} or more from"
    " a peak within; flat: the rest"
)


def windows_of(rules: Rules, snapshot: SnapshotRule) -> list[WindowRule]:
    """Return the distinct windows of all divisions on a snapshot, sorted by first day."""
    windows = set[WindowRule]()
    for division in rules.divisions:
        if division.snapshot == snapshot.name:
            windows.update(division.windows)

    return sorted(windows, key=lambda window: (window.first, window.last, window.name))


def make_market(rules: Rules, rule: SnapshotRule, snapshot: MarketSnapshot) -> Market:
    """Return the board's document for a snapshot. Equal inputs give equal documents."""
    windows = windows_of(rules, rule)
    spans = [window_rows(snapshot.days, window.first, window.last) for window in windows]
    whole = slice(0, 0)
    if spans:
        # A window's figures are based on the close before its first day.
        whole = slice(min(first for first, _ in spans) - 1, max(stop for _, stop in spans))

    figures: list[JsonValue] = []
    for window, (first, stop) in zip(windows, spans, strict=True):
        days_a_year = snapshot.days_a_year_of(snapshot.days[first:stop])
        own = _benchmark_figures(snapshot.benchmark[first - 1 : stop], days_a_year)
        own["name"] = window.name
        own["first"] = window.first
        own["last"] = window.last
        own["days"] = stop - first
        figures.append(own)

    value: dict[str, JsonValue] = {
        "schema_version": 1,
        "snapshot": _snapshot_facts(rule, snapshot),
        "days": [str(day) for day in snapshot.days[whole]],
        "benchmark": snapshot.benchmark[whole].tolist(),
        "regime_rule": REGIME_RULE,
        "windows": figures,
    }

    return from_plain(round_floats(value), Market, "market")


def _snapshot_facts(rule: SnapshotRule, snapshot: MarketSnapshot) -> dict[str, JsonValue]:
    described = gather_snapshot(snapshot, ())
    facts = {name: getattr(described, name) for name in DESCRIBED}
    return {
        **facts,
        "name": rule.name,
        "id": rule.id,
        "title": described.name,
        "placebo": described.is_placebo,
    }


def _benchmark_figures(levels: FloatArray, days_a_year: int) -> dict[str, JsonValue]:
    """Return the benchmark's figures from its [days + 1] levels, of which the first is the base
    level.
    """
    if level_problem(levels):
        return {
            "total_return": None,
            "volatility": None,
            "sharpe": None,
            "max_drawdown": None,
            "regime": "unknown",
        }

    returns = simple_returns(levels)
    year = math.sqrt(days_a_year)
    total = float(levels[-1] / levels[0] - 1.0)
    fall = float(np.max(1.0 - levels / np.maximum.accumulate(levels)))
    volatility = None
    sharpe = None
    if len(returns) > 1:
        deviation = standard_deviation(returns)
        volatility = deviation * year
        if deviation >= NO_VARIANCE:
            sharpe = mean(returns) / deviation * year

    return {
        "total_return": total,
        "volatility": volatility,
        "sharpe": sharpe,
        "max_drawdown": fall,
        "regime": regime(total, fall),
    }


def regime(total_return: float, max_drawdown: float) -> Regime:
    """Classify a window into a regime by `REGIME_RULE`; both figures are fractions."""
    if total_return >= _MOVE:
        return "bull"
    if total_return <= -_MOVE:
        return "bear"

    return "volatile" if max_drawdown >= _FALL else "flat"
