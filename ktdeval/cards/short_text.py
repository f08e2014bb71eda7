"""Short text form of a card: about ten lines, as returned by `repr(card)` in a Python session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from ktdeval.cards.fields.coverage import Coverage
from ktdeval.cards.fields.knowledge.rank_eligibility import Rankable
from ktdeval.cards.fields.origin.fact_types import ScoreLine
from ktdeval.cards.fields.origin.recorded_facts import AnyFacts, TradingFacts
from ktdeval.cards.fields.returns.medians import spread_of
from ktdeval.cards.fields.returns.metrics import MetricLine
from ktdeval.cards.fields.units import figure_text, unit_word
from ktdeval.cards.fields.words import label_word
from ktdeval.cards.table_types import clean, count, percent

HEADLINE_METRICS = ("total_return", "selection_alpha", "sharpe", "max_drawdown")
_MAX_SCORES = 4
_MAX_WINDOWS = 3
_LABEL_WIDTH = 17  # characters


def headline_metrics(metrics: Mapping[str, MetricLine]) -> dict[str, MetricLine]:
    """Return the headline metrics of a trading card."""
    return {name: metrics[name] for name in HEADLINE_METRICS if name in metrics}


def headline_scores(scores: Mapping[str, ScoreLine], order: Sequence[str]) -> dict[str, ScoreLine]:
    """Return the first headline scores of a scoring card."""
    names = [name for name in order if scores[name].headline]
    return {name: scores[name] for name in names[:_MAX_SCORES]}


class DerivedParts(Protocol):
    """Derived fields of a card that its text shows."""

    @property
    def labels(self) -> Sequence[str]:
        """What a reader must know before any figure."""

    @property
    def rankable(self) -> Rankable:
        """Whether the card may be ranked."""

    @property
    def coverage(self) -> Coverage:
        """How much was decided."""

    @property
    def what_failed(self) -> str:
        """One line on failures and repairs; may be empty."""


def card_text(
    facts: AnyFacts, derived: DerivedParts, figures: Mapping[str, MetricLine | ScoreLine]
) -> str:
    """Return a card as about ten lines: system, task, windows, labels, ranking, failures, headline
    figures with intervals, who decided, and how to verify the card. `derived` are the derived
    fields of the same card; `figures` are its headline figures, in order.
    """
    coverage = derived.coverage
    planned = count(coverage.steps_planned, facts.STEP)
    rows = [
        ("system", f"{facts.model.name}, agent {facts.agent.name}"),
        ("task", f"{facts.task.name}, version {facts.task.version}"),
        ("windows", _windows_text(facts)),
        ("labels", ", ".join(map(label_word, derived.labels))),
        ("ranking", derived.rankable.words),
        ("failures", derived.what_failed),
    ]
    rows += [(name, _figure(line)) for name, line in figures.items()]
    rows += [
        ("provenance", f"{coverage.steps_decided:,} of {planned} decided by the model"),
        ("verification", "not checked here: ktdeval card verify FILE"),
    ]
    lines = [clean(f"<{type(facts).__name__} {facts.task.name} · {facts.model.name}")]
    for name, text in rows:
        if text:
            lines.append(f"  {name:<{_LABEL_WIDTH}}{clean(text)}")

    return "\n".join(lines) + ">"


def _windows_text(facts: AnyFacts) -> str:
    """Return the windows and market of a trading card; empty for other cards."""
    if not isinstance(facts, TradingFacts):
        return ""

    names = [window.name for window in facts.windows]
    text = ", ".join(names[:_MAX_WINDOWS])
    if len(names) > _MAX_WINDOWS:
        text += f" … {names[-1]} ({len(names)})"

    return f"{text}; {facts.windows[0].first}…{facts.windows[-1].last}; {facts.snapshot.name}"


def _figure(line: MetricLine | ScoreLine) -> str:
    """Return a figure with its unit, and with its spread if that is known."""
    unit = unit_word(line.unit)
    text = f"{figure_text(line.unit, line.value)} {unit}".rstrip()
    if line.value is None and line.reason:
        text += f" ({line.reason})"

    spread = spread_of(line)
    if spread is None or spread.low is None or spread.high is None:
        return text

    ends = f"{figure_text(line.unit, spread.low)} … {figure_text(line.unit, spread.high)}"
    level = getattr(spread, "level", None)
    if level:
        return f"{text} ({percent(level, 'g')} interval {ends})"
    return f"{text} (quartiles over episodes {ends})"
