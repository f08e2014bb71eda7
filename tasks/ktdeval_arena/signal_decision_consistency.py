"""Validity of DeepFund's signals and decisions (§3) and consistency between the two (§4.3), in a
DeepFund database or in runs.

The paper calls a Buy consistent after dominant Bullish signals, a Sell after dominant Bearish
signals, and a Hold after Neutral or mixed signals. A *dominant* signal is one with a strict
plurality: more signals than any other kind. Under this rule, Bearish signals require a Sell even if
nothing is held; with `accepts_empty`, a Hold is consistent in that case.

A signal or decision that replaces a missing or unreadable reply is invalid. An invalid decision is
neither judged nor counted among the actions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from ktdeval.harness import SIGNALS, Signal

Action = Literal["Buy", "Sell", "Hold"]
ACTIONS: tuple[Action, ...] = ("Buy", "Sell", "Hold")
# §4.3 (i) to (iii); None: mixed signals
_CALLED_FOR: dict[Signal | None, Action] = {
    "Bullish": "Buy",
    "Bearish": "Sell",
    "Neutral": "Hold",
    None: "Hold",
}


def dominant(signals: Sequence[Signal]) -> Signal | None:
    """Return the signal given more often than any other; None in a tie, such as 2 Bearish and 2
    Neutral.
    """
    counted = Counter(signals).most_common(2)
    if not counted:
        return None

    first, most = counted[0]
    # §4.3 says "dominant" without defining it; here a tie between two kinds is mixed.
    is_tied = len(counted) == 2 and counted[1][1] == most
    return None if is_tied else first


def is_consistent(
    signals: Sequence[Signal], action: Action, held: float, accepts_empty: bool = False
) -> bool | None:
    """Return whether a decision follows the strict plurality of its signals; None without signals.

    `held`: number of shares held before the decision. `accepts_empty`: whether a Hold is consistent
    after dominant Bearish signals if nothing is held.
    """
    if not signals:
        return None

    side = dominant(signals)
    if accepts_empty and side == "Bearish" and action == "Hold" and held == 0:
        return True

    return action == _CALLED_FOR[side]


def share(flags: Sequence[bool | None]) -> float | None:
    """Return the fraction of True among the flags that are not None; None if all are None."""
    known = [flag for flag in flags if flag is not None]
    return sum(known) / len(known) if known else None


@dataclass(frozen=True)
class AnalystSignal:
    """One analyst's signal on one ticker, as the manager received it.

    `signal`: None if no signal was received. `is_default`: whether the reply was missing or
    unreadable.
    """

    config: str
    portfolio: str
    ticker: str
    analyst: str
    signal: Signal | None
    is_default: bool


@dataclass(frozen=True)
class TickerDecision:
    """Decision on one ticker, with the signals on which it was based.

    `held`: number of shares held before the decision, exact for a Hold (`replay.yaml`). `shares`:
    number of shares decided; in a run, the number filled. `is_default`: whether the decision is a
    Hold for lack of a readable reply.
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
class SignalRecord:
    """Signals and decisions from a database or from runs. In runs, a portfolio is one window and
    seed.

    `configs`: experiment and model by config id, in order.
    """

    configs: Mapping[str, tuple[str, str]]
    opinions: Sequence[AnalystSignal]
    decisions: Sequence[TickerDecision]


_SIGNAL_NAMES = {name.lower(): name for name in SIGNALS}
_ACTION_NAMES = {name.lower(): name for name in ACTIONS}


class SummaryRow(msgspec.Struct, frozen=True, kw_only=True, rename=_ACTION_NAMES | _SIGNAL_NAMES):
    """Counts, validity and consistency for one config or for all. Fractions with a zero denominator
    are None.
    """

    experiment: str
    model: str
    signals: int
    signal_errors: int
    signal_validity: float | None
    decisions: int
    decision_errors: int
    decision_validity: float | None
    judged: int  #: decisions that had signals
    consistent: int
    consistency: float | None
    consistent_held: int  #: with `accepts_empty`
    consistency_held: float | None
    buy: int
    sell: int
    hold: int
    bullish: int
    bearish: int
    neutral: int


class AnalystRow(msgspec.Struct, frozen=True, kw_only=True, rename=_SIGNAL_NAMES):
    """Signals of one analyst, with all models combined."""

    analyst: str
    signals: int
    errors: int  #: defaults after an error
    bullish: int
    bearish: int
    neutral: int


class DecisionRow(msgspec.Struct, frozen=True, kw_only=True, rename=_SIGNAL_NAMES):
    """A decision, its signals, and whether it follows them."""

    experiment: str
    model: str
    portfolio: str
    day: str
    ticker: str
    bullish: int
    bearish: int
    neutral: int
    action: Action
    shares: float
    held: float | None  #: only for a Hold
    is_valid: bool
    consistent: bool | None
    consistent_held: bool | None  #: with `accepts_empty`


def summary_rows(record: SignalRecord) -> list[SummaryRow]:
    """Return one row for all configs, then one per config."""
    rows = [_summary_row("all", "all", record.opinions, record.decisions)]
    for key, (experiment, model) in record.configs.items():
        opinions = [opinion for opinion in record.opinions if opinion.config == key]
        decisions = [decision for decision in record.decisions if decision.config == key]
        rows.append(_summary_row(experiment, model, opinions, decisions))

    return rows


def _summary_row(
    experiment: str,
    model: str,
    opinions: Sequence[AnalystSignal],
    decisions: Sequence[TickerDecision],
) -> SummaryRow:
    strict = [_follows(decision) for decision in decisions]
    lenient = [_follows(decision, accepts_empty=True) for decision in decisions]
    actions = Counter(decision.action for decision in decisions if not decision.is_default)
    signals = Counter(opinion.signal for opinion in opinions)
    return SummaryRow(
        experiment=experiment,
        model=model,
        signals=len(opinions),
        signal_errors=sum(opinion.is_default for opinion in opinions),
        signal_validity=share([not opinion.is_default for opinion in opinions]),
        decisions=len(decisions),
        decision_errors=sum(decision.is_default for decision in decisions),
        decision_validity=share([not decision.is_default for decision in decisions]),
        judged=sum(flag is not None for flag in strict),
        consistent=strict.count(True),
        consistency=share(strict),
        consistent_held=lenient.count(True),
        consistency_held=share(lenient),
        buy=actions["Buy"],
        sell=actions["Sell"],
        hold=actions["Hold"],
        bullish=signals["Bullish"],
        bearish=signals["Bearish"],
        neutral=signals["Neutral"],
    )


def analyst_rows(record: SignalRecord) -> list[AnalystRow]:
    """Return one row per analyst, sorted by name."""
    by_analyst: dict[str, list[AnalystSignal]] = {}
    for opinion in record.opinions:
        by_analyst.setdefault(opinion.analyst, []).append(opinion)

    rows = []
    for analyst, opinions in sorted(by_analyst.items()):
        signals = Counter(opinion.signal for opinion in opinions)
        rows.append(
            AnalystRow(
                analyst=analyst,
                signals=len(opinions),
                errors=sum(opinion.is_default for opinion in opinions),
                bullish=signals["Bullish"],
                bearish=signals["Bearish"],
                neutral=signals["Neutral"],
            )
        )

    return rows


def decision_rows(record: SignalRecord) -> list[DecisionRow]:
    """Return one row per decision, in order."""
    rows = []
    for decision in record.decisions:
        experiment, model = record.configs[decision.config]
        rows.append(
            DecisionRow(
                experiment=experiment,
                model=model,
                portfolio=decision.portfolio,
                day=decision.day,
                ticker=decision.ticker,
                bullish=decision.signals.count("Bullish"),
                bearish=decision.signals.count("Bearish"),
                neutral=decision.signals.count("Neutral"),
                action=decision.action,
                shares=decision.shares,
                held=decision.held if decision.action == "Hold" else None,
                is_valid=not decision.is_default,
                consistent=_follows(decision),
                consistent_held=_follows(decision, accepts_empty=True),
            )
        )

    return rows


def _follows(decision: TickerDecision, accepts_empty: bool = False) -> bool | None:
    if decision.is_default:
        return None
    return is_consistent(decision.signals, decision.action, decision.held, accepts_empty)
