"""Cards as data frames, with one row per card or one row per figure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pandas as pd

from ktdeval.cards.card import ScoringCard, TradingCard
from ktdeval.cards.fields.returns.medians import spread_of
from ktdeval.cards.short_records import shown_metrics
from ktdeval.cards.short_text import HEADLINE_METRICS

_CARD_COLUMNS = ("model", "agent", "windows", "episodes", "decided", "may_be_ranked", "reasons")
_FIGURE_COLUMNS = ("value", "low", "high", "bounds", "n", "unit", "better", "reason")


def card_frame(cards: Iterable[TradingCard | ScoringCard]) -> pd.DataFrame:
    """Return one row per card, sorted by task.

    Columns: model, agent, windows, finished episodes, fraction of steps that the model decided,
    whether the card may be ranked and the reasons why not, labels, and the headline figures.
    """
    rows = []
    figures: dict[str, None] = {}
    for card in cards:
        headlines = _headlines(card)
        figures |= dict.fromkeys(headlines)
        rows.append({"task": card.task.name, **_facts(card), **headlines})

    columns = ["task", *_CARD_COLUMNS, "labels", *figures]
    return pd.DataFrame(rows, columns=columns).set_index("task")


def figure_frame(cards: Iterable[TradingCard | ScoringCard]) -> pd.DataFrame:
    """Return one row per task and metric (or score), with value, interval ends, n and unit."""
    rows: list[dict[str, Any]] = []
    for card in cards:
        rows.extend(_figure_rows(card))

    frame = pd.DataFrame(rows, columns=["task", "metric", *_FIGURE_COLUMNS])
    return frame.set_index(["task", "metric"])


def _facts(card: TradingCard | ScoringCard) -> dict[str, Any]:
    windows = ""
    if isinstance(card, TradingCard):
        windows = ", ".join(window.name for window in card.windows)

    planned = card.coverage.steps_planned
    return {
        "model": card.model.name,
        "agent": card.agent.name,
        "windows": windows,
        "episodes": card.coverage.episodes_finished,
        "decided": card.coverage.steps_decided / planned if planned else None,
        "may_be_ranked": card.rankable.value,
        "reasons": "; ".join(card.rankable.reasons),
        "labels": ", ".join(card.labels),
    }


def _headlines(card: TradingCard | ScoringCard) -> dict[str, float | None]:
    """Return the headline figures of a card, keyed by name."""
    if isinstance(card, TradingCard):
        names = [name for name in HEADLINE_METRICS if name in card.metrics]
        metrics = shown_metrics(card)
        return {name: metrics[name].value for name in names}

    names = [name for name in card.score_order if card.scores[name].headline]
    return {name: card.scores[name].value for name in names}


def _figure_rows(card: TradingCard | ScoringCard) -> Iterator[dict[str, Any]]:
    """Yield a row for each metric or score on a card. Those in the task's order come first."""
    lines: Mapping[str, Any]
    if isinstance(card, TradingCard):
        lines = card.metrics
        order = card.task.config.get("metrics", [])
    else:
        lines = card.scores
        order = card.score_order

    ordered = [name for name in order if name in lines]
    for name in dict.fromkeys([*ordered, *lines]):
        line = lines[name]
        spread = spread_of(line)
        yield {
            "task": card.task.name,
            "metric": name,
            "value": line.value,
            "low": getattr(spread, "low", None),
            "high": getattr(spread, "high", None),
            "bounds": getattr(spread, "kind", None),
            "n": line.n,
            "unit": line.unit,
            "better": line.better,
            "reason": line.reason if line.value is None else None,
        }
