"""Short text of a card: what `repr(card)` gives in a Python session, some ten lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ktdeval.cards.fields.fact_types import ScoreLine
from ktdeval.cards.fields.medians import spread_of
from ktdeval.cards.fields.metrics import MetricLine
from ktdeval.cards.fields.units import figure_text, unit_word
from ktdeval.cards.fields.warning_labels import label_word
from ktdeval.cards.table_types import clean, count

if TYPE_CHECKING:
    from ktdeval.cards.card import ScoringCard, TradingCard

HEADLINE_METRICS = ("total_return", "selection_alpha", "sharpe", "max_drawdown")
_MOST_SCORES = 4
_MOST_WINDOWS = 3
_LABEL_WIDTH = 17  # characters


def trading_text(card: TradingCard) -> str:
    """Return a trading card in some ten lines: system, task, windows, labels, headline figures with
    their intervals, who decided, and how to verify it.
    """
    names = [window.name for window in card.windows]
    windows = ", ".join(names[:_MOST_WINDOWS])
    if len(names) > _MOST_WINDOWS:
        windows += f" … {names[-1]} ({len(names)})"

    days = f"{card.windows[0].first}…{card.windows[-1].last}"
    rows = [("windows", f"{windows}; {days}; {card.snapshot.name}")]
    metrics = [name for name in HEADLINE_METRICS if name in card.metrics]
    figures = [(name, _figure(card.metrics[name])) for name in metrics]
    return _text(card, rows, figures)


def scoring_text(card: ScoringCard) -> str:
    """Return a scoring card in some ten lines, as `trading_text`."""
    headlines = [name for name in card.score_order if card.scores[name].headline]
    figures = [(name, _figure(card.scores[name])) for name in headlines[:_MOST_SCORES]]
    return _text(card, [], figures)


def _text(
    card: TradingCard | ScoringCard,
    rows: list[tuple[str, str]],
    figures: list[tuple[str, str]],
) -> str:
    lines = [clean(f"<{type(card).__name__} {card.task.name} · {card.model.name}")]
    for name, text in (*_identity(card), *rows, *_trust(card), *figures, *_provenance(card)):
        lines.append(f"  {name:<{_LABEL_WIDTH}}{clean(text)}")

    return "\n".join(lines) + ">"


def _identity(card: TradingCard | ScoringCard) -> Iterator[tuple[str, str]]:
    yield "system", f"{card.model.name}, agent {card.agent.name}"
    yield "task", f"{card.task.name}, version {card.task.version}"


def _trust(card: TradingCard | ScoringCard) -> Iterator[tuple[str, str]]:
    if card.labels:
        yield "labels", ", ".join(map(label_word, card.labels))

    yield "ranking", card.rankable.words


def _provenance(card: TradingCard | ScoringCard) -> Iterator[tuple[str, str]]:
    decided = card.coverage.steps_decided
    planned = count(card.coverage.steps_planned, card.STEP)
    yield "provenance", f"{decided:,} of {planned} decided by the model"
    yield "verification", "not checked here: ktdeval card verify FILE"


def _figure(line: MetricLine | ScoreLine) -> str:
    """Return a figure with its unit and what is known of its spread."""
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
        return f"{text} ({100 * level:g} % interval {ends})"
    return f"{text} (quartiles over episodes {ends})"
