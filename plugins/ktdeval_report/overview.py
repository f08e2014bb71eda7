"""Values of what stands before the cards: labels, one row for each card, and the effects of masks and modes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ktdeval.stats import MetricValue, mean_with_interval, overlap_correlation
from ktdeval_report.effects import Effect, Effects
from ktdeval_report.inputs import Evaluation, known_values
from ktdeval_report.plots_factors import Point
from ktdeval_report.render import Cell, Table
from ktdeval_report.study import CardStudy, median
from ktdeval_report.text import UNDEFINED, count, figure, span, unit_name

_COLUMNS = ("return, %", "excess, %", "95 % interval", "Sharpe", "drawdown, %", "selection, %", "ECE", "decided, %", "finished")


def labels(evaluations: Sequence[Evaluation]) -> list[tuple[str, str]]:
    """Labels of the cards, each with how many cards have it where not all do."""
    counts = {name: sum(name in one.card.labels for one in evaluations) for one in evaluations for name in one.card.labels}
    whole = len(evaluations)
    return [(name, "" if number == whole else f" ({number} of {count(whole, 'card')})") for name, number in counts.items()]


def excess(evaluation: Evaluation) -> MetricValue:
    """Mean over windows of the median return over seeds less the benchmark's; `detail` holds its interval."""
    differences, days = [], []
    for window in evaluation.windows:
        episodes = evaluation.episodes_of(window)
        own = median(known_values(episodes, "total_return"))
        held = evaluation.card.reference.benchmark_buy_and_hold[window].metrics.total_return.value
        if own is not None and held is not None:
            differences.append(own - held)
            days.append((episodes[0].first_day, episodes[0].last_day))
    return mean_with_interval(np.array(differences), overlap_correlation(days))


def excess_points(studies: Sequence[CardStudy]) -> list[Point]:
    """Return the excess return of each card, to draw."""
    found = []
    for study in studies:
        value = excess(study.evaluation)
        detail = value.detail or {}
        found.append(Point(study.evaluation.label, value.value, detail.get("low"), detail.get("high")))
    return found


def card_table(studies: Sequence[CardStudy]) -> Table:
    """One row for each card, linked to its section."""
    rows = []
    for study in studies:
        one, value = study.evaluation, excess(study.evaluation)
        detail = value.detail or {}
        coverage = one.card.coverage
        rows.append(
            [
                Cell(one.label, "link", one.anchor, ", ".join(_standing(one))),
                _median(one, "total_return", signed=True),
                figure(value.value, "fraction", signed=True),
                span(detail.get("low"), detail.get("high"), "fraction", signed=True),
                _median(one, "sharpe"),
                _median(one, "max_drawdown"),
                figure(median(study.lines.get("selection", ())), "fraction", signed=True),
                _median(one, "ece"),
                figure(coverage.steps_decided / coverage.steps if coverage.steps else None, "fraction"),
                f"{coverage.episodes_finished} of {coverage.episodes_planned}",
            ]
        )
    return Table("All cards: medians over episodes", ("card", *_COLUMNS), rows)


def _standing(evaluation: Evaluation) -> list[str]:
    """Return the labels of a card, and whether it may not be ranked."""
    return [*([] if evaluation.card.rankable.value else ["not rankable"]), *evaluation.card.labels]


def _median(evaluation: Evaluation, name: str, signed: bool = False) -> str:
    metric = evaluation.card.metrics.get(name)
    if metric is None or metric.value is None:
        return UNDEFINED
    return figure(metric.value, metric.unit, signed)


def effects_view(effects: Effects, plots: Sequence[object]) -> dict[str, Any]:
    """Tables of effects with their plots; no table when no agent has cards on both sides of one."""
    unit = unit_name(effects.unit)
    tables = []
    for rows, where, caption in (
        (effects.masks, "mode", f"Mask effects on {effects.metric}: mean over windows, paired within window and seed"),
        (
            effects.modes,
            "mask",
            f"What data and tools add to {effects.metric}: averaged over the orders in which they can be given",
        ),
    ):
        heads = ("agent", where, "effect", "windows", f"mean{f', {unit}' if unit else ''}", "95 % interval")
        if rows:
            tables.append(Table(caption, heads, [_effect_row(row, effects.unit) for row in rows], words=3))
    return {"tables": tables, "plots": plots, "notes": effects.notes}


def _effect_row(effect: Effect, unit: str) -> list[object]:
    ends = f"none: {effect.reason}" if effect.reason else span(effect.low, effect.high, unit, signed=True)
    return [effect.agent, effect.where, effect.name, str(effect.n), figure(effect.value, unit, signed=True), ends]


def left_out(studies: Sequence[CardStudy], drawn_cards: int) -> dict[str, str]:
    """Count of windows that are not drawn, and of cards without any; empty where there are none."""
    recorded = [study for study in studies if study.windows]
    missing = sum(len(study.evaluation.windows) - sum(window.drawn for window in study.windows) for study in recorded)
    beyond = len(recorded) - drawn_cards
    return {"missing_windows": count(missing, "window") if missing else "", "beyond": count(beyond, "card") if beyond > 0 else ""}
