"""Scores over many answers: means over items with their intervals, next to what an answer without
any call earns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from math import fsum
from pathlib import Path
from typing import Final, Literal

import numpy as np

from ktdeval.stats import Interval, studentised_mean, wilson
from ktdeval.task_api import (
    UNANSWERED,
    AnswerRecord,
    Score,
    ScoreDefinition,
    unanswered_detail,
    with_bounds,
)
from ktdeval.values import JsonValue, Value, derive_seed, from_plain, load_yaml
from ktdeval_qfinzero.suite.config import Rules, SuiteConfig
from ktdeval_qfinzero.suite.grading import METRICS, OTHER, AnswerGrades, AskedItem

LEVEL: Final = 0.95

NO_SUBMISSION: Final = "no_submission"
"""Failure mode of an item to which the model gave no valid submission."""
_NO_MODES: Final = (NO_SUBMISSION,)

_NO_ITEM: Final = Score(None, 0, reason="no item was answered")
_SCALE: Final = {"overall": 100.0}


class _Definition(Value, frozen=True):
    """A score in `scores.yaml`; from 0 to `most`."""

    formula: str
    unit: str = "fraction"
    most: float = 1.0
    better: Literal["higher", "lower"] = "higher"
    source: Literal["rules", "ours"] = "ours"
    headline: bool = True
    live_only: bool = False


class _Definitions(Value, frozen=True):
    sources: dict[str, str]
    scores: dict[str, _Definition]


@cache
def _read_definitions() -> _Definitions:
    path = Path(__file__).with_name("scores.yaml")
    return from_plain(load_yaml(path), _Definitions, path.name)


def definitions(config: SuiteConfig) -> dict[str, ScoreDefinition]:
    """Define each score of a variant, in the order shown."""
    read = _read_definitions()
    defined: dict[str, ScoreDefinition] = {}
    for name, each in read.scores.items():
        if each.live_only and not config.is_live:
            continue

        source = config.rules if each.source == "rules" else each.source
        defined[name] = ScoreDefinition(
            formula=each.formula,
            unit=each.unit,
            range=(0.0, each.most),
            better=each.better,
            source=read.sources[source],
            headline=each.headline,
        )

    return defined


def summarise(records: Sequence[AnswerRecord], config: SuiteConfig) -> dict[str, Score]:
    """Compute all scores of `definitions` over these records, which may be of several windows and
    seeds. Pure. An item without a valid submission earns 0 everywhere: that is the model's failure.
    One whose model call failed says nothing about the model: it is counted, and bounds each score.
    """
    put = [AskedItem.of(record) for record in records]
    scores = {
        "overall": _overall(put, config.rules),
        "exact": _exact(put),
        "tm": _metric_of_both_rules("tm", put, config.rules),
        "pa": _metric_of_both_rules("pa", put, config.rules),
        "ta": _metric_of_both_rules("ta", put, config.rules),
        "refusal_accuracy": _refusal(put),
        "call_precision": _precision(put),
        UNANSWERED: _score_unanswered(records),
    }
    if config.is_live:
        scores["end_state_match"] = _end_state(put)

    return {name: scores[name] for name in definitions(config)}


def _answering(put: Sequence[AskedItem]) -> list[AskedItem]:
    """Return the items on which the model was heard: those whose call did not fail."""
    return [one for one in put if not one.failed]


# ---- one score


def _overall(put: Sequence[AskedItem], rules: Rules) -> Score:
    """Mean of the metrics, with all further figures of the answers."""
    asked = _answering(put)
    other = OTHER[rules]
    graded = [one.graded for one in asked if one.graded is not None]
    modes: list[str] = []
    for one in asked:
        modes += _NO_MODES if one.graded is None else one.graded.failure_modes

    def means(of_group: Sequence[AskedItem]) -> dict[str, JsonValue]:
        return _means(of_group, rules)

    detail: dict[str, JsonValue] = {
        "other_rules": {"rules": other, **_means(asked, other)},
        "by_category": _figures_by_group(asked, _category, means),
        "by_difficulty": _figures_by_group(asked, _difficulty, means),
        "failure_modes": _name_counts(modes),
        "without_call": sum(each.no_call for each in graded),
        "without_submission": len(asked) - len(graded),
        "ids": {
            "expected": sum(each.ids_expected for each in graded),
            "right": sum(each.ids_right for each in graded),
        },
    }
    return _score_of_metric("overall", put, rules, detail)


def _means(asked: Sequence[AskedItem], rules: Rules) -> dict[str, JsonValue]:
    return {name: _mean_figure(asked, _make_earner(rules, name)) for name in METRICS}


def _metric_of_both_rules(name: str, put: Sequence[AskedItem], rules: Rules) -> Score:
    other = OTHER[rules]
    value = _mean_figure(_answering(put), _make_earner(other, name))
    return _score_of_metric(name, put, rules, {"other_rules": {"rules": other, "value": value}})


def _score_of_metric(
    name: str, put: Sequence[AskedItem], rules: Rules, detail: Mapping[str, JsonValue]
) -> Score:
    asked = _answering(put)
    scale = _SCALE.get(name, 1.0)
    points = [(item, value / scale) for item, value in _points(asked, _make_earner(rules, name))]
    baseline = _average([float(getattr(one.facts.empty, name)) for one in asked])
    return _score_of_points(name, points, put, baseline, detail)


def _exact(put: Sequence[AskedItem]) -> Score:
    asked = _answering(put)

    def is_exact(graded: AnswerGrades) -> bool:
        return graded.exact

    def share(of_group: Sequence[AskedItem]) -> dict[str, JsonValue]:
        return {"value": _mean_figure(of_group, is_exact)}

    detail: dict[str, JsonValue] = {
        "by_category": _figures_by_group(asked, _category, share),
        "by_difficulty": _figures_by_group(asked, _difficulty, share),
    }
    baseline = _average([one.facts.empty.exact for one in asked])

    return _score_of_points("exact", _points(asked, is_exact), put, baseline, detail)


def _end_state(put: Sequence[AskedItem]) -> Score:
    asked = _answering(put)

    def match(graded: AnswerGrades) -> bool:
        return bool(graded.end_state_match)

    changing = [one for one in asked if one.facts.changes_state]
    differing: list[str] = []
    for one in asked:
        if one.graded is not None:
            differing += one.graded.differing

    detail: dict[str, JsonValue] = {
        "changing": {"n": len(changing), "value": _mean_figure(changing, match)},
        "differing": _name_counts(differing),
    }
    baseline = _average([one.facts.empty.end_state_match or 0.0 for one in asked])

    return _score_of_points("end_state_match", _points(asked, match), put, baseline, detail)


def _refusal(put: Sequence[AskedItem]) -> Score:
    """Score the items to refuse. The others, answered without a call, are in the detail: an agent
    that never calls refuses all.
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
            "value": len(falsely_refused) / len(others) if others else None,
        },
        "said_so": sum(one.status == "refused" for one in refused),
    }
    if not to_refuse:
        return Score(None, 0, detail=detail, reason="no item to refuse was answered")

    points = _points(to_refuse, lambda graded: graded.no_call)
    all_to_refuse = [one for one in put if one.facts.refusal]
    return _score_of_points("refusal_accuracy", points, all_to_refuse, 1.0, detail)


def _precision(put: Sequence[AskedItem]) -> Score:
    asked = _answering(put)
    counted = [one for one in asked if one.graded is None or one.graded.call_precision is not None]
    if not counted:
        return Score(None, 0, reason="no answer has a call")

    points = _points(counted, lambda graded: graded.call_precision or 0.0)
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
    """Return the mean of points with its interval, and its bounds over all items that were `put`."""
    if not points:
        return _NO_ITEM

    scale = _SCALE.get(name, 1.0)
    interval = interval_of(name, points)
    if scale != 1.0:
        interval = interval.transformed(lambda end: end * scale)

    value = scale * (_average([value for _, value in points]) or 0.0)
    score = Score(value, len(points), interval, baseline, detail)
    figures: list[tuple[str, float | None]] = [(item, scale * value) for item, value in points]
    figures += [(one.item, None) for one in put if one.failed]
    return with_bounds(score, figures, (0.0, scale))


# ---- intervals


def interval_of(name: str, values: Sequence[tuple[str, float]]) -> Interval:
    """Interval of a mean over items. Answers to one item (in several seeds or windows) are not
    independent: the item's mean is what is resampled. Shares of items that were asked once have
    Wilson's score interval; so have means all of whose items earned nothing or everything, where
    resampling would show no doubt at all. Other means have that of a studentised bootstrap over
    items. `name`: of the score; names the stream of chance; `values`: (item, value from 0 to 1) of
    each answer.
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


def _category(one: AskedItem) -> str:
    return one.facts.category


def _difficulty(one: AskedItem) -> str:
    return one.facts.difficulty


def _make_earner(rules: Rules, name: str) -> Callable[[AnswerGrades], float]:
    def earned(graded: AnswerGrades) -> float:
        return float(getattr(graded.earned[rules], name))

    return earned


def _points(
    asked: Sequence[AskedItem], figure: Callable[[AnswerGrades], float]
) -> list[tuple[str, float]]:
    """(item, figure) of each answer; 0 where there was no valid submission."""
    points: list[tuple[str, float]] = []
    for one in asked:
        value = 0.0 if one.graded is None else float(figure(one.graded))
        points.append((one.item, value))

    return points


def _mean_figure(
    asked: Sequence[AskedItem], figure: Callable[[AnswerGrades], float]
) -> float | None:
    return _average([value for _, value in _points(asked, figure)])


def _average(values: Sequence[float]) -> float | None:
    return fsum(values) / len(values) if values else None


def _figures_by_group(
    asked: Sequence[AskedItem],
    key: Callable[[AskedItem], str],
    figures: Callable[[Sequence[AskedItem]], Mapping[str, JsonValue]],
) -> dict[str, JsonValue]:
    """Figures by category or difficulty, names in order."""
    groups: dict[str, list[AskedItem]] = {}
    for one in asked:
        groups.setdefault(key(one), []).append(one)

    return {name: {"n": len(group), **figures(group)} for name, group in sorted(groups.items())}


def _name_counts(names: Iterable[str]) -> dict[str, JsonValue]:
    return dict(sorted(Counter(names).items()))
