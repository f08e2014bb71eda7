"""Calling suite as the public code scores it, with all its quirks (for comparison with published
figures, not for ranking).

TM, PA and TA are each the mean over the expected calls of the best score of any predicted call;
calls are not assigned to steps. `docs/qfinzero-scoring.md` lists the differences from the paper's
rules. If the public code raises on a call (not an object, a name that is not a string, parameters
that are not an object), the call is treated as one without name or parameters.

`detail` contains the public code's composite, `overall_weighted` (0 to 100), and its five further
terms, each from 0 to 1: `ec` (address), `cos` (order), `jv` (valid JSON), `ocp` (1 minus 0.2 per
surplus call) and `foc` (closing answer).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from ktdeval.values import JsonValue
from ktdeval_qfinzero.scoring.public_code import (
    FIRST_SEGMENT_SCORE,
    OTHER_TOOL_SCORE,
    best_score,
    fitting_calls,
    inverted_share,
    mean_or_zero,
    taken_positions,
)
from ktdeval_qfinzero.scoring.types import (
    REFUSAL_NAMES,
    AnswerScores,
    GoldCall,
    GoldTask,
    registry_family,
)
from ktdeval_qfinzero.scoring.values import (
    CALLING_RULES,
    reference_failures,
    reference_object,
    reference_time,
    reference_within,
    text_of,
    time_fields,
    tolerance_of,
)

WEIGHTS: Final[Mapping[str, float]] = MappingProxyType(
    {
        "tm": 0.20,
        "ec": 0.15,
        "pa": 0.20,
        "ta": 0.15,
        "cos": 0.10,
        "jv": 0.05,
        "ocp": 0.10,
        "foc": 0.05,
    }
)
_SURPLUS_COST: Final = 0.2


@dataclass(frozen=True)
class _ParsedCall:
    """A predicted call as far as it can be read."""

    name: str | None
    address: str
    params: Mapping[str, JsonValue]


def score_calling(
    task: GoldTask,
    predicted: Sequence[JsonValue],
    json_valid: bool = True,
    final_answer: JsonValue = None,
) -> AnswerScores:
    """Score the calls in one answer.

    `predicted`: objects with `tool_name`, `endpoint` and `params`, as the model gave them; anything
    else is tolerated. `json_valid`: whether the reply was valid JSON in the requested form, on
    which only `jv` and the composite depend. `final_answer`: the closing answer, an object with
    `summary` and `assumptions`, or None.
    """
    calls = [_read_call(call) for call in predicted]
    validity = float(json_valid)
    closing = _closing(final_answer)
    if not task.calls and not calls:
        return _weighted_scores(dict.fromkeys(WEIGHTS, 1.0) | {"jv": validity})
    if task.refuse:
        if _refuses(calls):
            answered = 1.0 if isinstance(final_answer, dict) else 0.5
            return _weighted_scores(dict.fromkeys(WEIGHTS, 1.0) | {"jv": validity, "foc": answered})

        nothing = dict.fromkeys(WEIGHTS, 0.0) | {"jv": validity, "foc": closing}
        return _weighted_scores(nothing, {"missed_refusal"})

    if not calls:
        nothing = dict.fromkeys(WEIGHTS, 0.0) | {"jv": validity, "ocp": 1.0}
        return _weighted_scores(nothing, {"false_refusal"})

    surplus = max(0, len(calls) - len(task.calls))
    failures = _logged_failures(calls, task.calls)
    if surplus:
        failures.add("redundant_call")

    terms = {
        "jv": validity,
        "foc": closing,
        "tm": mean_or_zero(best_score(calls, gold, _tool_score) for gold in task.calls),
        "pa": mean_or_zero(_params(calls, gold) for gold in task.calls),
        "ta": mean_or_zero(_times_score(calls, gold) for gold in task.calls),
        "ec": mean_or_zero(best_score(calls, gold, _address) for gold in task.calls),
        "cos": _order_score(calls, task.calls),
        "ocp": max(0.0, 1.0 - _SURPLUS_COST * surplus),
    }
    return _weighted_scores(terms, failures)


def _read_call(call: JsonValue) -> _ParsedCall:
    if not isinstance(call, dict):
        return _ParsedCall(None, "", {})

    name = call.get("tool_name")
    address = call.get("endpoint")
    params = call.get("params")
    return _ParsedCall(
        name=name if isinstance(name, str) else None,
        address=address if isinstance(address, str) else "",
        params=params if isinstance(params, dict) else {},
    )


def _weighted_scores(
    terms: Mapping[str, float], failures: AbstractSet[str] = frozenset()
) -> AnswerScores:
    if not terms["jv"]:
        failures = failures | {"invalid_json"}

    weighted = 100.0 * math.fsum(weight * terms[name] for name, weight in WEIGHTS.items())
    further = {name: terms[name] for name in ("ec", "cos", "jv", "ocp", "foc")}

    return AnswerScores(
        terms["tm"],
        terms["pa"],
        terms["ta"],
        tuple(sorted(failures)),
        {"overall_weighted": weighted, **further},
    )


def _refuses(calls: Sequence[_ParsedCall]) -> bool:
    """Return whether no call asks for a service."""
    return all(call.name is not None and call.name.upper() in REFUSAL_NAMES for call in calls)


def _closing(final_answer: JsonValue) -> float:
    if not isinstance(final_answer, dict):
        return 0.0
    return 0.5 * bool(final_answer.get("summary")) + 0.5 * ("assumptions" in final_answer)


def _tool_score(call: _ParsedCall, gold: GoldCall) -> float:
    if call.name == gold.tool:
        return 1.0

    family = registry_family(call.name)
    if family is not None and family == registry_family(gold.tool):
        return OTHER_TOOL_SCORE

    return 0.0


def _params_score(call: _ParsedCall, gold: GoldCall) -> float:
    return reference_object(call.params, gold.required, CALLING_RULES)


def _params(calls: Sequence[_ParsedCall], gold: GoldCall) -> float:
    return best_score(fitting_calls(calls, gold, _tool_score), gold, _params_score)


def _times_score(calls: Sequence[_ParsedCall], gold: GoldCall) -> float:
    if not gold.times:
        return 1.0

    return best_score([call for call in calls if _is_of_tool(call, gold)], gold, _fields)


def _is_of_tool(call: _ParsedCall, gold: GoldCall) -> bool:
    return call.name == gold.tool


def _fields(call: _ParsedCall, gold: GoldCall) -> float:
    """Return the mean score of the time fields; 1 without any."""
    fields = time_fields(gold.times)
    tolerance = tolerance_of(gold.times)
    if not fields:
        return 1.0

    return mean_or_zero(
        _field(call.params.get(name), expected, tolerance) for name, expected in fields.items()
    )


def _field(predicted: JsonValue, expected: JsonValue, tolerance: str) -> float:
    if expected is None:
        return 1.0
    if predicted is None:
        return 0.0

    left = reference_time(text_of(predicted) or "")
    right = reference_time(text_of(expected) or "")
    if left is None or right is None:
        return 0.0

    return float(reference_within(left, right, tolerance))


def _address(call: _ParsedCall, gold: GoldCall) -> float:
    if gold.endpoint is None:
        return 1.0

    given = call.address.strip("/").lower()
    expected = gold.endpoint.strip("/").lower()
    if given == expected:
        return 1.0

    first_segment = expected.partition("/")[0]
    return FIRST_SEGMENT_SCORE if given.startswith(first_segment) else 0.0


def _logged_failures(calls: Sequence[_ParsedCall], golds: Sequence[GoldCall]) -> set[str]:
    """Return the failures as the public code logs them. It logs too many: calls that another
    expected call needs count against this one.
    """
    failures: set[str] = set()
    for gold in golds:
        failures |= _tool_failures(calls, gold)
        address = best_score(calls, gold, _address)
        if address < 1:
            failures.add("wrong_endpoint" if address > 0 else "hallucinated_endpoint")

        fits = fitting_calls(calls, gold, _tool_score)
        best = max(fits, key=lambda call: _params_score(call, gold), default=None)
        if best is not None and _params_score(best, gold) > 0:
            failures |= reference_failures(best.params, gold.required, CALLING_RULES)

        if any(_is_of_tool(call, gold) and _fields(call, gold) < 1 for call in calls):
            failures.add("wrong_time_value")

    positions = taken_positions(calls, golds, _is_of_tool)
    if len(positions) > 1 and inverted_share(positions) > 0:
        failures.add("wrong_call_order")

    return failures


def _tool_failures(calls: Sequence[_ParsedCall], gold: GoldCall) -> set[str]:
    """Return the failures of the calls before the first call to the expected tool."""
    failures: set[str] = set()
    for call in calls:
        if call.name == gold.tool:
            break
        failures.add("wrong_tool_action" if _tool_score(call, gold) > 0 else "wrong_tool_family")

    return failures


def _order_score(calls: Sequence[_ParsedCall], golds: Sequence[GoldCall]) -> float:
    """Return 1 minus the fraction of matched pairs in the wrong order. Missing expected calls cost
    nothing.
    """
    if len(golds) <= 1:
        return 1.0

    positions = taken_positions(calls, golds, _is_of_tool)
    return 1.0 - inverted_share(positions) if len(positions) > 1 else 0.0
