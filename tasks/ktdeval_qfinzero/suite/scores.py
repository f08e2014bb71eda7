"""The figures of many answers: means over items with their intervals, beside what an answer without any call earns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from typing import Final

import numpy as np

from ktdeval.api import AnswerRecord, Interval, JsonValue, Score, ScoreDefinition, derive_seed, wilson
from ktdeval_qfinzero.suite.config import Rules, SuiteConfig
from ktdeval_qfinzero.suite.grading import DIFFERS, FAILED, IDS, METRICS, OTHER

LEVEL: Final = 0.95
DRAWS: Final = 999
"""Resamples of an interval; 999 makes the 2.5 % and 97.5 % points order statistics."""

NO_SUBMISSION: Final = "no_submission"
"""Failure mode of an item to which the model gave no valid submission."""

_PAPER: Final = "QFinZero, section 4 and appendix A.3"
_PUBLIC: Final = "the public code of QFinZero at f78ac0d, its quirks included"
_OURS: Final = "of our own"
_UNIT: Final = (0.0, 1.0)
_SCALE: Final = {"overall": 100.0}


def definitions(config: SuiteConfig) -> dict[str, ScoreDefinition]:
    """What each score of a variant means, in the order shown."""
    source = _PAPER if config.rules == "paper" else _PUBLIC
    defined = {
        "overall": _mean("(TM + PA + TA) / 3 × 100, mean over items", source, "points", (0.0, 100.0)),
        "exact": _mean(
            "share of items with TM = PA = TA = 1 by the paper's rules and no surplus call; to refuse: answered without any call",
            _OURS,
        ),
        "tm": _mean("tool match: share of the expected calls made with the right tool, half for another one of its family", source),
        "pa": _mean("parameter accuracy: mean over the expected calls' parameters", source),
        "ta": _mean("time alignment: share of the expected calls' time fields met within their tolerance", source),
    }
    if config.is_live:
        defined["end_state_match"] = _mean(
            "share of items whose accounts, orders and clock end as the expected calls leave them", _OURS
        )
    return {
        **defined,
        "refusal_accuracy": _mean("share of the items to refuse that were answered without any call", _OURS, headline=False),
        "call_precision": _mean(
            "share of the calls that serve an expected one with its very tool; mean over answers with calls", _OURS, headline=False
        ),
        "unanswered": ScoreDefinition(
            formula="items whose model call failed, over all items; they are left out of the other scores",
            unit="fraction of items",
            range=_UNIT,
            better="lower",
            source=_OURS,
            headline=False,
        ),
    }


def _mean(
    formula: str, source: str, unit: str = "fraction", range_: tuple[float, float] = _UNIT, headline: bool = True
) -> ScoreDefinition:
    return ScoreDefinition(formula=formula, unit=unit, range=range_, better="higher", source=source, headline=headline)


@dataclass(frozen=True)
class _Point:
    """One value of one item, 0 to 1."""

    item: str
    value: float


def summarise(records: Sequence[AnswerRecord], config: SuiteConfig) -> dict[str, Score]:
    """All scores of `definitions` over these records, which may be of several windows and seeds. Pure.

    An item without a valid submission earns 0 everywhere: that is the model's failure. One whose model call failed tells nothing
    of the model, and is only counted.
    """
    asked = [record for record in records if record["provenance"] != "error"]
    overall, *parts = METRICS
    scores = {overall: _metric(overall, asked, config.rules), "exact": _exact(asked)}
    scores |= {name: _metric(name, asked, config.rules) for name in parts}
    if config.is_live:
        scores["end_state_match"] = _end_state(asked)
    return {**scores, "refusal_accuracy": _refusal(asked), "call_precision": _precision(asked), "unanswered": _unanswered(records)}


# ---- one score


def _metric(name: str, asked: Sequence[AnswerRecord], rules: Rules) -> Score:
    if not asked:
        return _nothing("no item was answered")
    scale = _SCALE.get(name, 1.0)
    detail: dict[str, JsonValue] = {"other_rules": {"rules": OTHER[rules], "value": _average(_values(asked, OTHER[rules], name))}}
    if name == "overall":

        def means(of_group: Sequence[AnswerRecord]) -> dict[str, JsonValue]:
            return {each: _average(_values(of_group, rules, each)) for each in METRICS}

        detail |= {
            "other_rules": {"rules": OTHER[rules], **{each: _average(_values(asked, OTHER[rules], each)) for each in METRICS}},
            "by_category": _groups(asked, "category", means),
            "by_difficulty": _groups(asked, "difficulty", means),
            "failure_modes": _failure_modes(asked),
            "without_submission": sum(record["answer"] is None for record in asked),
            "ids": {name.removeprefix("ids_"): sum(int(_value(record, name)) for record in asked) for name in IDS},
        }
    points = [_Point(record["sample"], _value(record, f"{rules}_{name}") / scale) for record in asked]
    baseline = _average([float(record["facts"]["empty"][name]) for record in asked])
    return _score(name, points, scale, baseline, detail)


def _exact(asked: Sequence[AnswerRecord]) -> Score:
    if not asked:
        return _nothing("no item was answered")

    def share(of_group: Sequence[AnswerRecord]) -> dict[str, JsonValue]:
        return {"value": _average([_value(record, "exact") for record in of_group])}

    detail: dict[str, JsonValue] = {f"by_{key}": _groups(asked, key, share) for key in ("category", "difficulty")}
    points = [_Point(record["sample"], _value(record, "exact")) for record in asked]
    return _score("exact", points, 1.0, _average([record["facts"]["empty"]["exact"] for record in asked]), detail)


def _end_state(asked: Sequence[AnswerRecord]) -> Score:
    if not asked:
        return _nothing("no item was answered")
    changing = [record for record in asked if record["facts"]["changes_state"]]
    differing = Counter(_names(asked, DIFFERS))
    detail: dict[str, JsonValue] = {
        "changing": {"n": len(changing), "value": _average([_value(record, "end_state_match") for record in changing])},
        "differing": dict(sorted(differing.items())),
    }
    points = [_Point(record["sample"], _value(record, "end_state_match")) for record in asked]
    return _score(
        "end_state_match", points, 1.0, _average([record["facts"]["empty"]["end_state_match"] for record in asked]), detail
    )


def _refusal(asked: Sequence[AnswerRecord]) -> Score:
    """Of the items to refuse. The others, answered without a call, are in the detail: who never calls anything refuses all."""
    wanted = [record for record in asked if record["facts"]["refusal"]]
    others = [record for record in asked if not record["facts"]["refusal"]]
    false = sum(bool(record["scores"].get("no_call")) for record in others)
    detail: dict[str, JsonValue] = {
        "false_refusals": {"n": len(others), "count": false, "value": false / len(others) if others else None},
        "said_so": sum(_says_refused(record) for record in wanted),
    }
    if not wanted:
        return Score(None, 0, detail=detail, reason="no item to refuse was answered")
    points = [_Point(record["sample"], _value(record, "no_call")) for record in wanted]
    return _score("refusal_accuracy", points, 1.0, 1.0, detail)


def _says_refused(record: AnswerRecord) -> bool:
    """A refusal that says that it is one: the status, and no call."""
    answer = record["answer"]
    return answer is not None and answer["status"] == "refused" and bool(record["scores"]["no_call"])


def _precision(asked: Sequence[AnswerRecord]) -> Score:
    counted = [record for record in asked if record["answer"] is None or record["scores"]["call_precision"] is not None]
    if not counted:
        return _nothing("no answer has a call")
    return _score(
        "call_precision", [_Point(record["sample"], _value(record, "call_precision")) for record in counted], 1.0, None, {}
    )


def _unanswered(records: Sequence[AnswerRecord]) -> Score:
    if not records:
        return _nothing("there are no items")
    points = [_Point(record["sample"], float(record["provenance"] == "error")) for record in records]
    return _score("unanswered", points, 1.0, None, {"count": int(sum(point.value for point in points))})


def _nothing(reason: str) -> Score:
    return Score(None, 0, reason=reason)


def _score(name: str, points: Sequence[_Point], scale: float, baseline: float | None, detail: Mapping[str, JsonValue]) -> Score:
    interval = interval_of(name, [(point.item, point.value) for point in points])
    if scale != 1.0:
        interval = interval.transformed(lambda end: end * scale)
    value = scale * (_average([point.value for point in points]) or 0.0)
    return Score(value, len(points), interval, baseline, detail)


# ---- intervals


def interval_of(name: str, values: Sequence[tuple[str, float]]) -> Interval:
    """The interval of a mean over items.

    Answers to one item (in several seeds or windows) are no independent ones: the item's mean is what is resampled. Shares of
    items that were asked once have Wilson's score interval; so have means all of whose items earned nothing or everything, where
    resampling would show no doubt at all. Other means lie between percentiles of their resamples over items, as many as there are.

    Args:
        name: of the score; names the stream of chance.
        values: (item, value from 0 to 1) of each answer.
    """
    by_item: dict[str, list[float]] = {}
    for item, value in values:
        by_item.setdefault(item, []).append(value)
    means = np.array([fsum(found) / len(found) for found in by_item.values()])
    n = len(means)
    if set(means.tolist()) <= {0.0, 1.0}:
        return wilson(int(means.sum()), n, LEVEL)
    if n < 2:
        return Interval(None, None, LEVEL, "none", n, reason="one item only")
    rng = np.random.default_rng(derive_seed("qfinzero", name, n))
    drawn = means[rng.integers(0, n, (DRAWS, n))].mean(axis=1)
    low, high = np.quantile(drawn, ((1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0))
    return Interval(float(low), float(high), LEVEL, "percentile bootstrap over items", n, draws=DRAWS)


# ---- details


def _value(record: AnswerRecord, name: str) -> float:
    """A recorded score; 0 where there was no valid submission."""
    return float(record["scores"][name]) if record["answer"] is not None else 0.0


def _values(records: Sequence[AnswerRecord], rules: Rules, name: str) -> list[float]:
    return [_value(record, f"{rules}_{name}") for record in records]


def _average(values: Sequence[float]) -> float | None:
    return fsum(values) / len(values) if values else None


def _groups(
    records: Sequence[AnswerRecord], key: str, figures: Callable[[Sequence[AnswerRecord]], Mapping[str, JsonValue]]
) -> dict[str, JsonValue]:
    """Figures by category or difficulty, names in order."""
    groups: dict[str, list[AnswerRecord]] = {}
    for record in records:
        groups.setdefault(record["facts"][key], []).append(record)
    return {group: {"n": len(groups[group]), **figures(groups[group])} for group in sorted(groups)}


def _failure_modes(records: Sequence[AnswerRecord]) -> dict[str, JsonValue]:
    """Mode -> answers that it was found in."""
    found = Counter(_names(records, FAILED))
    if missing := sum(record["answer"] is None for record in records):
        found[NO_SUBMISSION] = missing
    return dict(sorted(found.items()))


def _names(records: Sequence[AnswerRecord], prefix: str) -> list[str]:
    return [name.removeprefix(prefix) for record in records for name in record["scores"] if name.startswith(prefix)]
