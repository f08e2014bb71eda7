"""Scores over many answers: means over items with their intervals, next to the scores of an answer
without any call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import fsum
from pathlib import Path
from typing import Final

import numpy as np

from ktdeval.stats import Interval, studentised_mean, wilson
from ktdeval.task_api import (
    FAILURE_MODES,
    UNANSWERED,
    AnswerRecord,
    Score,
    ScoreDefinition,
    unanswered_detail,
    with_bounds,
)
from ktdeval.values import JsonValue, derive_seed
from ktdeval_qfinzero.suite.config import Rules, SuiteConfig
from ktdeval_qfinzero.suite.grading import DIFFERS, FAILED, METRICS, OTHER, AskedItem
from ktdeval_qfinzero.suite.score_definitions import read_scores

LEVEL: Final = 0.95

NO_SUBMISSION: Final = "no_submission"
"""Failure mode of an item to which the model gave no valid submission."""
_NO_MODES: Final = (NO_SUBMISSION,)

_NO_ITEM: Final = Score(None, 0, reason="no item was answered")
_SCALE: Final = {"overall": 100.0}


def definitions(config: SuiteConfig) -> dict[str, ScoreDefinition]:
    """Define each score of a variant, in the order shown."""
    return read_scores(Path(__file__).parent).define(config.rules, is_live=config.is_live)


def summarise(records: Sequence[AnswerRecord], config: SuiteConfig) -> dict[str, Score]:
    """Compute all scores in `definitions` over these records, which may span several windows and
    seeds. Pure.

    An item without a valid submission earns 0 everywhere, since this is the model's failure. An
    item whose model call failed says nothing about the model; it is counted, and it widens the
    bounds of each score.
    """
    put = [AskedItem.of(record) for record in records]
    scores = {
        "overall": _overall(put, config.rules),
        "exact": _exact(put),
        "refusal_accuracy": _refusal(put),
        "call_precision": _precision(put),
        UNANSWERED: _score_unanswered(records),
    }
    other = OTHER[config.rules]
    for name in ("tm", "pa", "ta"):
        value = _mean_figure(_answering(put), f"{other}_{name}")
        detail: dict[str, JsonValue] = {"other_rules": {"rules": other, "value": value}}
        scores[name] = _score(name, put, f"{config.rules}_{name}", detail)
    if config.is_live:
        scores["end_state_match"] = _end_state(put)

    return {name: scores[name] for name in definitions(config)}


def _answering(put: Sequence[AskedItem]) -> list[AskedItem]:
    """Return the items to which the model replied, that is, those whose model call did not fail."""
    return [one for one in put if not one.failed]


# ---- one score


def _overall(put: Sequence[AskedItem], rules: Rules) -> Score:
    """Return the mean of the metrics, with all further figures of the answers."""
    asked = _answering(put)
    other = OTHER[rules]
    graded = [one.graded for one in asked if one.graded is not None]
    modes: list[str] = []
    for one in asked:
        modes += _NO_MODES if one.graded is None else one.names_after(FAILED)

    figures = {name: f"{rules}_{name}" for name in METRICS}
    others = {name: _mean_figure(asked, f"{other}_{name}") for name in METRICS}
    detail: dict[str, JsonValue] = {
        "other_rules": {"rules": other, **others},
        **_figures_by_stratum(asked, figures),
        FAILURE_MODES: _name_counts(modes),
        "without_call": sum(each.no_call for each in graded),
        "without_submission": len(asked) - len(graded),
        "ids": {
            "expected": sum(each.ids_expected for each in graded),
            "right": sum(each.ids_right for each in graded),
        },
    }
    return _score("overall", put, figures["overall"], detail)


def _exact(put: Sequence[AskedItem]) -> Score:
    detail = _figures_by_stratum(_answering(put), {"value": "exact"})
    return _score("exact", put, "exact", detail)


def _end_state(put: Sequence[AskedItem]) -> Score:
    name = "end_state_match"
    asked = _answering(put)
    changing = [one for one in asked if one.facts.changes_state]
    differing: list[str] = []
    for one in asked:
        differing += one.names_after(DIFFERS)

    detail: dict[str, JsonValue] = {
        "changing": {"n": len(changing), "value": _mean_figure(changing, name)},
        "differing": _name_counts(differing),
    }
    return _score(name, put, name, detail)


def _score(
    name: str, put: Sequence[AskedItem], figure: str, detail: Mapping[str, JsonValue]
) -> Score:
    """Return the mean of a figure over all answers, next to the mean for answers without calls."""
    asked = _answering(put)
    scale = _SCALE.get(name, 1.0)
    points = [(item, value / scale) for item, value in _points(asked, figure)]
    baseline = _average([float(getattr(one.facts.empty, name) or 0.0) for one in asked])
    return _score_of_points(name, points, put, baseline, detail)


def _refusal(put: Sequence[AskedItem]) -> Score:
    """Score the items that should be refused. The detail shows how many other items were answered
    without a call, since an agent that never calls refuses everything.
    """

    def makes_no_call(one: AskedItem) -> bool:
        return one.graded is not None and one.graded.no_call

    asked = _answering(put)
    to_refuse = [one for one in asked if one.facts.refusal]
    others = [one for one in asked if not one.facts.refusal]
    refused = [one for one in to_refuse if makes_no_call(one)]
    falsely_refused = [one for one in others if makes_no_call(one)]
    detail: dict[str, JsonValue] = {
        "false_refusals": {
            "n": len(others),
            "count": len(falsely_refused),
            "value": _mean_figure(others, "no_call"),
        },
        "said_so": sum(one.status == "refused" for one in refused),
    }
    if not to_refuse:
        return Score(None, 0, detail=detail, reason="no item to refuse was answered")

    points = _points(to_refuse, "no_call")
    all_to_refuse = [one for one in put if one.facts.refusal]
    return _score_of_points("refusal_accuracy", points, all_to_refuse, 1.0, detail)


def _precision(put: Sequence[AskedItem]) -> Score:
    asked = _answering(put)
    counted = [one for one in asked if one.graded is None or one.graded.call_precision is not None]
    if not counted:
        return Score(None, 0, reason="no answer has a call")

    points = _points(counted, "call_precision")
    return _score_of_points("call_precision", points, put, None, {})


def _score_unanswered(records: Sequence[AnswerRecord]) -> Score:
    if not records:
        return Score(None, 0, reason="there are no items")

    points = [(record.sample, float(record.answer is None)) for record in records]
    return _score_of_points(UNANSWERED, points, (), None, unanswered_detail(records))


def _score_of_points(
    name: str,
    points: Sequence[tuple[str, float]],
    put: Sequence[AskedItem],
    baseline: float | None,
    detail: Mapping[str, JsonValue],
) -> Score:
    """Return the mean of points with its interval, and its bounds over all items that were
    `put`.
    """
    if not points:
        return _NO_ITEM

    scale = _SCALE.get(name, 1.0)
    interval = interval_of(name, points)
    if scale != 1.0:
        interval = interval.transform_ends(lambda end: end * scale)

    value = scale * (_average([value for _, value in points]) or 0.0)
    score = Score(value, len(points), interval, baseline, detail)
    figures: list[tuple[str, float | None]] = [(item, scale * value) for item, value in points]
    figures += [(one.item, None) for one in put if one.failed]
    return with_bounds(score, figures, (0.0, scale))


# ---- intervals


def interval_of(name: str, values: Sequence[tuple[str, float]]) -> Interval:
    """Return the interval of a mean over items.

    Answers to one item (in several seeds or windows) are not independent, so item means are
    resampled. Proportions over items asked once get Wilson's score interval, as do means whose
    items all earned nothing or everything, for which resampling would give zero width. Other means
    get a studentised bootstrap over items. `name`: name of the score, which selects the random
    stream; `values`: (item, value from 0 to 1) for each answer.
    """
    by_item: dict[str, list[float]] = {}
    for item, value in values:
        by_item.setdefault(item, []).append(value)

    means = np.array([fsum(of_item) / len(of_item) for of_item in by_item.values()])
    n = len(means)
    if set(means.tolist()) <= {0.0, 1.0}:
        return wilson(int(means.sum()), n, LEVEL)

    seed = derive_seed("qfinzero", name, n)
    return studentised_mean(means, "items", seed, LEVEL, (0.0, 1.0))


# ---- details


def _points(asked: Sequence[AskedItem], figure: str) -> list[tuple[str, float]]:
    """Return (item, figure) for each answer. `figure`: its name in `AnswerGrades`; the figure is 0
    without a valid submission.
    """
    points: list[tuple[str, float]] = []
    for one in asked:
        value = 0.0 if one.graded is None else float(getattr(one.graded, figure) or 0.0)
        points.append((one.item, value))

    return points


def _mean_figure(asked: Sequence[AskedItem], figure: str) -> float | None:
    return _average([value for _, value in _points(asked, figure)])


def _average(values: Sequence[float]) -> float | None:
    return fsum(values) / len(values) if values else None


def _figures_by_stratum(
    asked: Sequence[AskedItem], figures: Mapping[str, str]
) -> dict[str, JsonValue]:
    """Return the means of figures by category and by difficulty, sorted by name."""
    strata: dict[str, JsonValue] = {}
    for stratum in ("category", "difficulty"):
        groups: dict[str, list[AskedItem]] = {}
        for one in asked:
            groups.setdefault(getattr(one.facts, stratum), []).append(one)

        rows: dict[str, JsonValue] = {}
        for name, group in sorted(groups.items()):
            means = {shown: _mean_figure(group, figure) for shown, figure in figures.items()}
            rows[name] = {"n": len(group), **means}
        strata[f"by_{stratum}"] = rows

    return strata


def _name_counts(names: Iterable[str]) -> dict[str, JsonValue]:
    return dict(sorted(Counter(names).items()))
