"""Markets of a board over its windows: the benchmark's course, figures by window, and what sort of market each one was."""

from __future__ import annotations

import math

import numpy as np

from ktdeval.jsonio import JsonValue
from ktdeval.market import FloatArray, MarketSnapshot, window_rows
from ktdeval.typed import from_plain
from ktdeval_board.derived import Market, Regime
from ktdeval_board.rules import Rules, SnapshotRule, WindowRule
from ktdeval_board.series import rounded

_MOVE, _FALL = 0.05, 0.10
REGIME_RULE = (
    f"bull: the benchmark rose by {_MOVE:.0%} or more from the close before the window to its last close; "
    f"bear: it fell by as much; of the others volatile: it fell by {_FALL:.0%} or more from a peak within; flat: the rest"
)
_TRADING_DAYS = 252
_NO_VARIANCE = 1e-12  # as the suite's Sharpe ratio: a smaller deviation of daily returns is rounding


def windows_of(rules: Rules, snapshot: SnapshotRule) -> list[WindowRule]:
    """Return the windows of all divisions on a snapshot, each once, by first day."""
    found = {window for division in rules.divisions if division.snapshot == snapshot.name for window in division.windows}
    return sorted(found, key=lambda window: (window.first, window.last, window.name))


def make_market(rules: Rules, rule: SnapshotRule, snapshot: MarketSnapshot) -> Market:
    """Make the market of a snapshot; equal rules and snapshots give equal values."""
    windows = windows_of(rules, rule)
    spans = [window_rows(snapshot.days, window.first, window.last) for window in windows]
    # The close before the first day is the base of a window's figures.
    whole = slice(min(first for first, _ in spans) - 1, max(stop for _, stop in spans)) if spans else slice(0, 0)
    value = {
        "schema_version": 1,
        "snapshot": _facts(rule, snapshot),
        "days": [str(day) for day in snapshot.days[whole]],
        "benchmark": snapshot.benchmark[whole].tolist(),
        "regime_rule": REGIME_RULE,
        "windows": [
            {"name": window.name, "first": window.first, "last": window.last, "days": stop - first}
            | _figures(snapshot.benchmark[first - 1 : stop])
            for window, (first, stop) in zip(windows, spans, strict=True)
        ],
    }
    return from_plain(rounded(value), Market, "market")


def _facts(rule: SnapshotRule, snapshot: MarketSnapshot) -> dict[str, JsonValue]:
    meta = snapshot.meta
    return {
        "name": rule.name,
        "id": rule.id,
        "benchmark": meta.benchmark,
        "benchmark_name": snapshot.index_names.get(meta.benchmark) or meta.benchmark,
        "synthetic": meta.synthetic,
        "source": meta.source,
        "assets": len(snapshot.codes),
        "first_day": str(snapshot.days[0]),
        "last_day": str(snapshot.days[-1]),
    }


def _figures(levels: FloatArray) -> dict[str, JsonValue]:
    """Figures of [days + 1] levels of the benchmark, the base first."""
    if not (np.isfinite(levels) & (levels > 0.0)).all():
        return {"total_return": None, "volatility": None, "sharpe": None, "max_drawdown": None, "regime": "unknown"}
    returns = levels[1:] / levels[:-1] - 1.0
    total, fall = float(levels[-1] / levels[0] - 1.0), float(np.max(1.0 - levels / np.maximum.accumulate(levels)))
    deviation = float(np.std(returns, ddof=1)) if len(returns) > 1 else 0.0
    year = math.sqrt(_TRADING_DAYS)
    return {
        "total_return": total,
        "volatility": deviation * year if len(returns) > 1 else None,
        "sharpe": float(np.mean(returns)) / deviation * year if deviation >= _NO_VARIANCE else None,
        "max_drawdown": fall,
        "regime": regime(total, fall),
    }


def regime(total_return: float, max_drawdown: float) -> Regime:
    """Return what sort of market a window was, by `REGIME_RULE`; both figures are fractions."""
    if total_return >= _MOVE:
        return "bull"
    if total_return <= -_MOVE:
        return "bear"
    return "volatile" if max_drawdown >= _FALL else "flat"
