"""Rules of the paper (section 4, appendix A.3) for both suites: fair, one call for one step, nothing for nothing.

`docs/qfinzero-scoring.md` says them all, and marks what A.3 leaves open and is decided here. The alignment has the largest
total TM, among those the largest total PA, then TA. A verbatim repeat of a call counts only as often as there are steps that it
meets in full, or identical steps of its tool, and serves only those. Where nothing of a step can be compared, PA or TA is its
TM, so an empty answer earns exactly 0 and a perfect one 100. Surplus calls and ids of the run cost nothing; `detail` counts
them. Failure modes are those of the aligned calls, out of the closed set `FAILURE_MODES`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Final

from ktdeval.errors import DataError
from ktdeval.jsonio import JsonValue
from ktdeval_qfinzero.scoring.alignment import align
from ktdeval_qfinzero.scoring.predicted import PredictedCall, expected_ids, given_ids, read_calls
from ktdeval_qfinzero.scoring.types import FURTHER_TOOLS, METRICS, REGISTRY, GoldCall, GoldTask, Scores, known_family
from ktdeval_qfinzero.scoring.values import (
    ONE,
    TOLERANCE_SECONDS,
    ZERO,
    compare_objects,
    is_placeholder,
    is_within,
    time_fields,
    tolerance_of,
)

FAILURE_MODES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "missing_call": "a step has no call, and no call of another family stands in its place",
        "wrong_tool": "the aligned call is another tool of the family",
        "wrong_family": "a step has no call, but there is one of another family to spare, which repeats none that serves a step",
        "unknown_tool": "a call names a tool that does not exist",
        "missing_param": "the aligned call lacks a required parameter or time field",
        "wrong_value": "a required parameter of the aligned call differs",
        "wrong_time": "a time field of the aligned call is out of tolerance",
        "extra_call": "a call serves no step and replaces none: there are more calls than steps, or it is a repeat",
        "false_refusal": "no service is called although the task can be done",
        "missed_refusal": "something other than a refusal although the task can't be done",
        "malformed_call": "an item of the answer is no call: no object, no name, or arguments that can't be read",
        "unreadable_reply": "the reply holds no answer that can be read",
    }
)
_OTHER_TOOL_SCORE: Final = Fraction(1, 2)


@dataclass(frozen=True)
class _Match:
    """Scores of a call on a step, and why not more."""

    tm: Fraction
    pa: Fraction
    ta: Fraction
    failures: frozenset[str]

    @property
    def is_full(self) -> bool:
        return self.tm == self.pa == self.ta == 1


@dataclass(frozen=True)
class _Alignment:
    """Steps and the calls they are aligned with: step -> place among `calls`, and what that earns."""

    golds: tuple[GoldCall, ...]
    calls: tuple[PredictedCall, ...]
    places: Mapping[int, int]
    matches: Mapping[int, _Match]

    @property
    def spare(self) -> tuple[PredictedCall, ...]:
        taken = set(self.places.values())
        return tuple(call for place, call in enumerate(self.calls) if place not in taken)

    def mean(self, metric: str) -> float:
        """Mean of a metric over all steps, those without a call as 0."""
        return float(sum((getattr(match, metric) for match in self.matches.values()), ZERO) / len(self.golds))


def score(task: GoldTask, predicted: Sequence[JsonValue] | None, run_context: Mapping[str, str]) -> Scores:
    """Score an answer by the rules above.
    `predicted`: the calls as the model gave them, `{tool_name, params}` or `{tool, args}`; None for an unreadable reply;
    `run_context`: `session_id` and `account_id` of the run; only reported figures depend on it. Raises DataError if the task has a
    tolerance that is not defined.
    """
    check_tolerances(task)
    if predicted is None:
        return Scores(0.0, 0.0, 0.0, ("unreadable_reply",), _detail(None, 0, run_context))
    calls, malformed = read_calls(predicted)
    makes_no_call = not malformed and all(call.is_refusal for call in calls)
    if task.refuse or not task.calls:
        return _refusal(makes_no_call, malformed, len(predicted), run_context)
    alignment = _aligned(task.calls, calls)
    failures = {"false_refusal"} if makes_no_call else _failures(alignment, malformed)
    tm, pa, ta = (alignment.mean(metric) for metric in METRICS)
    return Scores(tm, pa, ta, tuple(sorted(failures)), _detail(alignment, len(predicted), run_context))


def check_tolerances(task: GoldTask) -> None:
    """Refuse a task whose tolerance has no meaning; raises DataError if names the task, the tool and the tolerance."""
    for gold in task.calls:
        if tolerance_of(gold.times) not in TOLERANCE_SECONDS:
            known = ", ".join(TOLERANCE_SECONDS)
            raise DataError(f"{task.id}: {gold.tool}: unknown tolerance {tolerance_of(gold.times)[:60]!r}; give one of {known}")


def _refusal(makes_no_call: bool, malformed: int, predicted: int, run_context: Mapping[str, str]) -> Scores:
    earned = float(makes_no_call)
    failures = [] if makes_no_call else ["missed_refusal", *(["malformed_call"] if malformed else [])]
    return Scores(earned, earned, earned, tuple(sorted(failures)), _detail(None, 0 if makes_no_call else predicted, run_context))


# ---- one step and one call


def _match(gold: GoldCall, call: PredictedCall) -> _Match | None:
    """Scores of a call on a step; None for a tool of another family."""
    tm = _tool(gold.tool, call.tool)
    if tm == 0:
        return None
    met = {name: is_within(call.args.get(name), value, tolerance_of(gold.times)) for name, value in _fields(gold).items()}
    late = {name for name, is_met in met.items() if not is_met}
    accepted = {name: value for name, value in gold.required.items() if met.get(name)}
    params = compare_objects({**call.args, **accepted}, gold.required)
    given = {name for name, value in call.args.items() if value is not None}
    ta = Fraction(len(met) - len(late), len(met)) if met else tm
    failures = {"wrong_tool"} if tm < 1 else set()
    # A time that is out of tolerance is one failure, though it costs PA and TA.
    failures |= {"wrong_value"} if set(params.wrong) - late else set()
    failures |= {"wrong_time"} if late & given else set()
    failures |= {"missing_param"} if params.missing or late - given else set()
    return _Match(tm, tm if params.score is None else params.score, ta, frozenset(failures))


def _tool(expected: str, given: str) -> Fraction:
    if given == expected:
        return ONE
    family = known_family(given)
    return _OTHER_TOOL_SCORE if family is not None and family == known_family(expected) else ZERO


def _fields(gold: GoldCall) -> dict[str, JsonValue]:
    """Time fields that can be compared."""
    return {name: value for name, value in time_fields(gold.times).items() if value is not None and not is_placeholder(value)}


# ---- all steps and all calls


def _aligned(golds: tuple[GoldCall, ...], calls: tuple[PredictedCall, ...]) -> _Alignment:
    """Best alignment. Among equally good ones the content of steps and calls decides, never their order."""
    rows = sorted(range(len(golds)), key=lambda step: _content(golds[step]))
    asked = Counter(_expectation(gold) for gold in golds)
    alike = [asked[_expectation(golds[step])] for step in rows]
    columns: list[int] = []
    matches: dict[tuple[int, int], _Match] = {}
    for places in _repeats(calls):
        earned = {row: match for row, step in enumerate(rows) if (match := _match(golds[step], calls[places[0]])) is not None}
        again = {row: match for row, match in earned.items() if match.is_full or (match.tm == 1 and alike[row] > 1)}
        most = max([1, sum(match.is_full for match in again.values()), *(alike[row] for row in again)])
        # Of a call that stands there more than once as many count as steps ask for it, the first wherever it fits.
        for copy, place in enumerate(places[:most]):
            matches.update({(row, len(columns)): match for row, match in (again if copy else earned).items()})
            columns.append(place)
    chosen = align(len(golds), {pair: (match.tm, match.pa, match.ta) for pair, match in matches.items()})
    placed = {rows[row]: columns[column] for row, column in sorted(chosen.items())}
    return _Alignment(golds, calls, placed, {rows[row]: matches[row, column] for row, column in chosen.items()})


def _repeats(calls: Sequence[PredictedCall]) -> list[list[int]]:
    """Places of calls with the same content, contents in order."""
    places: dict[str, list[int]] = {}
    for place, call in enumerate(calls):
        places.setdefault(call.content, []).append(place)
    return [places[content] for content in sorted(places)]


def _content(gold: GoldCall) -> str:
    return json.dumps([gold.tool, gold.required, gold.times, gold.optional, gold.endpoint], sort_keys=True, default=dict)


def _expectation(gold: GoldCall) -> str:
    """Expectation of a step; equal for identical steps, whatever else is noted of them."""
    return json.dumps([gold.tool, gold.required, gold.times], sort_keys=True, default=dict)


def _failures(alignment: _Alignment, malformed: int) -> set[str]:
    found = {name for match in alignment.matches.values() for name in match.failures}
    known_tools = REGISTRY.keys() | FURTHER_TOOLS | {gold.tool for gold in alignment.golds}
    serving = {alignment.calls[place].content for place in alignment.places.values()}
    known = [call for call in alignment.spare if call.tool in known_tools or call.is_refusal]
    unknown = len(alignment.spare) - len(known)
    repeats = sum(call.content in serving for call in known)
    others = len(known) - repeats
    open_steps = len(alignment.golds) - len(alignment.places)
    found |= {"malformed_call"} if malformed else set()
    found |= {"unknown_tool"} if unknown else set()
    found |= {"wrong_family"} if open_steps and others else set()
    found |= {"missing_call"} if open_steps > others + unknown + malformed else set()
    found |= {"extra_call"} if repeats or others > open_steps else set()
    return found


# ---- reported, not scored


def _detail(alignment: _Alignment | None, predicted: int, run_context: Mapping[str, str]) -> dict[str, JsonValue]:
    if alignment is None:
        return {"steps": [], "extra_calls": predicted, "call_precision": None, "ids_expected": 0, "ids_right": 0}
    right = {step for step, match in alignment.matches.items() if match.tm == 1}
    expected = [expected_ids(gold, run_context) for gold in alignment.golds]
    carried = [
        expected[step].items() & given_ids(alignment.golds[step], alignment.calls[alignment.places[step]]).items() for step in right
    ]
    return {
        "steps": [_step_detail(alignment, step) for step in range(len(alignment.golds))],
        "extra_calls": predicted - len(alignment.places),
        "call_precision": len(right) / predicted if predicted else None,
        "ids_expected": sum(len(ids) for ids in expected),
        "ids_right": sum(len(ids) for ids in carried),
    }


def _step_detail(alignment: _Alignment, step: int) -> dict[str, JsonValue]:
    """Which predicted call serves a step (`call`, from 0, or None), and what it earns."""
    match = alignment.matches.get(step)
    call = None if match is None else alignment.calls[alignment.places[step]].index
    earned = {metric: 0.0 if match is None else float(getattr(match, metric)) for metric in METRICS}
    return {"tool": alignment.golds[step].tool, "call": call, **earned}
