"""What stands before the cards: labels, one row for each card, and the effects of masks and modes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ktdeval.api import MetricValue, mean_with_interval, overlap_correlation
from ktdeval_report.effects import Effect, Effects
from ktdeval_report.inputs import Evaluation
from ktdeval_report.markup import Html, Table, bullets, join, paragraph, table, tag
from ktdeval_report.plots_factors import Point
from ktdeval_report.study import CardStudy, median
from ktdeval_report.text import UNDEFINED, count, figure, span, unit_name

LABEL_MEANINGS = {
    "synthetic": "Prices are generated from a seed. No figure says anything about a real market.",
    "limited": "Every episode was cut short, so figures are not those of its window.",
    "incomplete": "Planned episodes did not finish; figures are of those that did.",
    "low coverage": "The model decided fewer than 95 % of the planned steps; the engine held at the others.",
    "mask not certified": "Identities are hidden from the model, but no probe has shown that they stay so.",
    "no adjustment factor": "Adjusted prices were traded as they are.",
}
_COLUMNS = ("return, %", "excess, %", "95 % interval", "Sharpe", "drawdown, %", "selection, %", "ECE", "decided, %", "finished")


def label_list(evaluations: Sequence[Evaluation]) -> Html:
    """What must be read before any figure, with the cards that it holds of."""
    items = []
    for name in dict.fromkeys(name for one in evaluations for name in one.card["labels"]):
        flagged = [one for one in evaluations if name in one.card["labels"]]
        which = "" if len(flagged) == len(evaluations) else f" ({len(flagged)} of {count(len(evaluations), 'card')})"
        items.append(tag("li", tag("strong", name.upper() + which), " ", LABEL_MEANINGS.get(name, "")))
    return tag("ul", *items, class_="labels", aria_label="Labels of these results") if items else Html("")


def excess(evaluation: Evaluation) -> MetricValue:
    """Mean over windows of the median return over seeds less the benchmark's; `detail` holds its interval."""
    card = evaluation.card
    differences, days = [], []
    for window in evaluation.windows:
        episodes = [episode for episode in card["episodes"] if episode["window"] == window]
        entries = [episode["metrics"].get("total_return", {"value": None})["value"] for episode in episodes]
        own = median([value for value in entries if value is not None])
        held = card["reference"]["benchmark_buy_and_hold"][window]["metrics"]["total_return"]["value"]
        if own is not None and held is not None:
            differences.append(own - held)
            days.append((episodes[0]["first_day"], episodes[0]["last_day"]))
    return mean_with_interval(np.array(differences), overlap_correlation(days))


def excess_points(studies: Sequence[CardStudy]) -> list[Point]:
    """The excess return of each card, to draw."""
    found = []
    for study in studies:
        value = excess(study.evaluation)
        detail = value.detail or {}
        found.append(Point(study.evaluation.label, value.value, detail.get("low"), detail.get("high")))
    return found


def card_table(studies: Sequence[CardStudy]) -> Html:
    """One row for each card, linked to its section."""
    rows = []
    for study in studies:
        one, value = study.evaluation, excess(study.evaluation)
        detail = value.detail or {}
        coverage = one.card["coverage"]
        rows.append(
            [
                join([tag("a", one.label, href=f"#{one.anchor}"), tag("small", ", ".join(_standing(one)))]),
                _median(one, "total_return", signed=True),
                figure(value.value, "fraction", signed=True),
                span(detail.get("low"), detail.get("high"), "fraction", signed=True),
                _median(one, "sharpe"),
                _median(one, "max_drawdown"),
                figure(median(study.lines.get("selection", ())), "fraction", signed=True),
                _median(one, "ece"),
                figure(coverage["steps_decided"] / coverage["steps"] if coverage["steps"] else None, "fraction"),
                f"{coverage['episodes_finished']} of {coverage['episodes_planned']}",
            ]
        )
    return table(Table("All cards: medians over episodes", ("card", *_COLUMNS), rows))


def _standing(evaluation: Evaluation) -> list[str]:
    """The labels of a card, and whether it may not be ranked."""
    return [*([] if evaluation.card["rankable"]["value"] else ["not rankable"]), *evaluation.card["labels"]]


def _median(evaluation: Evaluation, name: str, signed: bool = False) -> str:
    metric = evaluation.card["metrics"].get(name)
    if metric is None or metric["value"] is None:
        return UNDEFINED
    return figure(metric["value"], metric["unit"], signed)


def overview_notes() -> Html:
    """How to read the table of cards."""
    return bullets(
        [
            "excess: mean over windows of the median return over seeds, less the benchmark's; its interval is a t interval over "
            "windows, widened where they share days, and speaks of other windows like these. One window has none.",
            "selection: part of the return that neither the market nor style factors explain (linked).",
            join(
                [
                    "Whether two agents differ is not read off overlapping intervals: ",
                    tag("code", "ktdeval compare"),
                    " tests it, paired.",
                ]
            ),
        ]
    )


def effects_section(effects: Effects, plots: Sequence[Html]) -> Html:
    """Tables of effects with their plots; nothing when no agent has cards on both sides of one."""
    if not effects.masks and not effects.modes:
        return bullets(effects.notes)
    parts = [tag("div", *plots, class_="plots")]
    unit = unit_name(effects.unit)
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
            parts.append(table(Table(caption, heads, [_effect_row(row, effects.unit) for row in rows], words=3)))
    parts.append(
        bullets(
            [
                "Stock and date in sight add up to the memory premium; the interaction is how much more the stock is worth when "
                "the date is known too.",
                join(["The tests behind such figures, with corrected p-values, are in ", tag("code", "ktdeval effects"), "."]),
                *effects.notes,
            ]
        )
    )
    return join(parts)


def _effect_row(effect: Effect, unit: str) -> list[object]:
    ends = span(effect.low, effect.high, unit, signed=True)
    return [
        effect.agent,
        effect.where,
        effect.name,
        str(effect.n),
        figure(effect.value, unit, signed=True),
        f"none: {effect.reason}" if effect.reason else ends,
    ]


def left_out_note(studies: Sequence[CardStudy], drawn_cards: int) -> Html:
    """Which plots there are not, and how to have them."""
    missing = sum(
        len(study.evaluation.windows) - sum(window.drawn for window in study.windows) for study in studies if study.windows
    )
    if not missing:
        return Html("")
    beyond = len([study for study in studies if study.windows]) - drawn_cards
    cards = f" {count(beyond, 'card')} of them {'has' if beyond == 1 else 'have'} tables alone." if beyond > 0 else ""
    verb = "is" if missing == 1 else "are"
    return paragraph(
        f"Not every window is drawn: {count(missing, 'window')} of the cards below {verb} in tables only.",
        cards,
        " Windows are chosen by the benchmark (its worst, best and middle one), never by the agent's result; ",
        tag("code", "--windows"),
        " names others.",
        class_="quiet",
    )
