"""Validity of DeepFund's signals and decisions (§3), and consistency of the two (§4.3): of its database and of runs.

The paper calls a Buy after dominant Bullish signals consistent, a Sell after dominant Bearish ones, and a Hold after Neutral or
mixed ones. *Dominant* is a strict plurality: more signals than of any other kind. By that rule alone, Bearish signals call for a
Sell also where nothing is held and nothing can be sold; `accepts_empty` counts a Hold there as consistent.

A signal or decision that stands for a reply that could not be had or read is invalid. An invalid decision is none: it is neither
judged nor counted among the actions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ktdeval.harness import SIGNALS, Signal

Action = Literal["Buy", "Sell", "Hold"]
ACTIONS: tuple[Action, ...] = ("Buy", "Sell", "Hold")
Row = dict[str, Any]
_CALLED_FOR: dict[Signal | None, Action] = {"Bullish": "Buy", "Bearish": "Sell", "Neutral": "Hold", None: "Hold"}


def dominant(signals: Sequence[Signal]) -> Signal | None:
    """Signal given more often than each other one; None where there is none, as of 2 Bearish and 2 Neutral."""
    counted = Counter(signals).most_common(2)
    if not counted or (len(counted) == 2 and counted[0][1] == counted[1][1]):
        return None
    return counted[0][0]


def is_consistent(signals: Sequence[Signal], action: Action, held: float, accepts_empty: bool = False) -> bool | None:
    """Whether a decision follows its signals by strict plurality; None where it had no signals.

    `held`: shares held before the decision. `accepts_empty`: a Hold after dominant Bearish signals with nothing held is consistent.
    """
    if not signals:
        return None
    side = dominant(signals)
    if accepts_empty and side == "Bearish" and action == "Hold" and held == 0:
        return True
    return action == _CALLED_FOR[side]


def share(flags: Sequence[bool | None]) -> float | None:
    """Share of True among the flags that are not None, a fraction; None where all are."""
    known = [flag for flag in flags if flag is not None]
    return sum(known) / len(known) if known else None


@dataclass(frozen=True)
class Opinion:
    """Signal of one analyst on one ticker, as the manager received it; None where it received none. `is_default`: the reply could
    not be had or read.
    """

    config: str
    portfolio: str
    ticker: str
    analyst: str
    signal: Signal | None
    is_default: bool


@dataclass(frozen=True)
class Decided:
    """Decision on one ticker, with the signals it was made on. `held`: shares before it, exact for a Hold (`replay.yaml`).
    `shares`: of the decision, or filled in a run. `is_default`: a Hold for want of a reply that could be read.
    """

    config: str
    portfolio: str
    day: str
    ticker: str
    action: Action
    shares: float
    held: float
    signals: tuple[Signal, ...]
    is_default: bool


@dataclass(frozen=True)
class Record:
    """Signals and decisions of a database or of runs, whose portfolios are window and seed. `configs`: experiment and model by
    id, in order.
    """

    configs: Mapping[str, tuple[str, str]]
    opinions: Sequence[Opinion]
    decisions: Sequence[Decided]


def summary_rows(record: Record) -> list[Row]:
    """One row for all, then one a config: counts; validity and consistency as fractions, None of nothing."""
    rows = [_summary("all", "all", record.opinions, record.decisions)]
    for key, (experiment, model) in record.configs.items():
        opinions = [opinion for opinion in record.opinions if opinion.config == key]
        decisions = [decision for decision in record.decisions if decision.config == key]
        rows.append(_summary(experiment, model, opinions, decisions))
    return rows


def _summary(experiment: str, model: str, opinions: Sequence[Opinion], decisions: Sequence[Decided]) -> Row:
    strict, lenient = ([_follows(decision, accepts_empty) for decision in decisions] for accepts_empty in (False, True))
    return {
        "experiment": experiment,
        "model": model,
        "signals": len(opinions),
        "signal_errors": sum(opinion.is_default for opinion in opinions),
        "signal_validity": share([not opinion.is_default for opinion in opinions]),
        "decisions": len(decisions),
        "decision_errors": sum(decision.is_default for decision in decisions),
        "decision_validity": share([not decision.is_default for decision in decisions]),
        "judged": sum(flag is not None for flag in strict),
        "consistent": sum(flag is True for flag in strict),
        "consistency": share(strict),
        "consistent_held": sum(flag is True for flag in lenient),
        "consistency_held": share(lenient),
        **_counts([decision.action for decision in decisions if not decision.is_default], ACTIONS),
        **_counts([opinion.signal for opinion in opinions], SIGNALS),
    }


def analyst_rows(record: Record) -> list[Row]:
    """One row an analyst, all models together: counts of its signals, and of those that are defaults after an error."""
    rows = []
    for analyst in sorted({opinion.analyst for opinion in record.opinions}):
        own = [opinion for opinion in record.opinions if opinion.analyst == analyst]
        errors = sum(opinion.is_default for opinion in own)
        counts = _counts([opinion.signal for opinion in own], SIGNALS)
        rows.append({"analyst": analyst, "signals": len(own), "errors": errors, **counts})
    return rows


def decision_rows(record: Record) -> list[Row]:
    """One row a decision, in order: its signals, what they call for, and whether it follows them by both rules."""
    return [
        {
            "experiment": record.configs[decision.config][0],
            "model": record.configs[decision.config][1],
            "portfolio": decision.portfolio,
            "day": decision.day,
            "ticker": decision.ticker,
            **_counts(decision.signals, SIGNALS),
            "action": decision.action,
            "shares": decision.shares,
            "held": decision.held if decision.action == "Hold" else None,
            "is_valid": not decision.is_default,
            "consistent": _follows(decision),
            "consistent_held": _follows(decision, accepts_empty=True),
        }
        for decision in record.decisions
    ]


def _follows(decision: Decided, accepts_empty: bool = False) -> bool | None:
    return None if decision.is_default else is_consistent(decision.signals, decision.action, decision.held, accepts_empty)


def _counts(values: Sequence[str | None], names: Sequence[str]) -> dict[str, int]:
    counted = Counter(values)
    return {name: counted[name] for name in names}
