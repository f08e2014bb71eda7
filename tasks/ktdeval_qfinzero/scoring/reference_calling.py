"""Calling suite as the public code scores it, quirks and all (conformance with published figures; not the rules to rank by).

TM, PA and TA are each the mean over the expected calls of the best score that any predicted call gets: nothing is assigned.
What differs from the paper's rules is in `docs/qfinzero-scoring.md`. Where the public code raises (a call that is not an
object, a name that is not text, parameters that are not an object), the call counts as one without name or parameters.

`detail` holds the composite of the public code, `overall_weighted` (0 to 100), and its five further terms, each 0 to 1: `ec`
(address), `cos` (order), `jv` (valid JSON), `ocp` (1 less 0.2 for each surplus call) and `foc` (closing answer).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass
from itertools import combinations, takewhile
from types import MappingProxyType
from typing import Final

from ktdeval.jsonio import JsonValue
from ktdeval_qfinzero.scoring.types import REFUSAL_NAMES, GoldCall, GoldTask, Scores, registry_family
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
    {"tm": 0.20, "ec": 0.15, "pa": 0.20, "ta": 0.15, "cos": 0.10, "jv": 0.05, "ocp": 0.10, "foc": 0.05}
)
_OTHER_TOOL_SCORE: Final = 0.5
_FIRST_SEGMENT_SCORE: Final = 0.3
_SURPLUS_COST: Final = 0.2


@dataclass(frozen=True)
class _Call:
    """A predicted call as far as it can be read."""

    name: str | None
    address: str
    params: Mapping[str, JsonValue]


def score_calling(
    task: GoldTask, predicted: Sequence[JsonValue], json_valid: bool = True, final_answer: JsonValue = None
) -> Scores:
    """Score the calls of one answer.
    `predicted`: objects with `tool_name, endpoint` and `params`, as the model gave them; anything else is tolerated; `json_valid`:
    whether the reply was valid JSON of the asked form; only `jv` and the composite depend on it; `final_answer`: the closing
    answer, an object with `summary` and `assumptions`, or None.
    """
    calls = [_read(call) for call in predicted]
    terms = {"jv": float(json_valid), "foc": _closing(final_answer)}
    if not task.calls and not calls:
        return _scores({**dict.fromkeys(WEIGHTS, 1.0), "jv": terms["jv"]})
    if task.refuse:
        return _refusal(calls, terms, isinstance(final_answer, dict))
    if not calls:
        return _scores({**dict.fromkeys(WEIGHTS, 0.0), "jv": terms["jv"], "ocp": 1.0}, {"false_refusal"})
    count = len(task.calls)
    return _scores(
        failures=_failures(calls, task.calls) | ({"redundant_call"} if len(calls) > count else set()),
        terms={
            **terms,
            "tm": math.fsum(max((_tool(call, gold) for call in calls), default=0.0) for gold in task.calls) / count,
            "pa": math.fsum(_params(calls, gold) for gold in task.calls) / count,
            "ta": math.fsum(_times(calls, gold) for gold in task.calls) / count,
            "ec": math.fsum(max(_address(call, gold) for call in calls) for gold in task.calls) / count,
            "cos": _order(calls, task.calls),
            "ocp": max(0.0, 1.0 - _SURPLUS_COST * max(0, len(calls) - count)),
        },
    )


def _read(call: JsonValue) -> _Call:
    if not isinstance(call, dict):
        return _Call(None, "", {})
    name, address, params = call.get("tool_name"), call.get("endpoint"), call.get("params")
    readable = name if isinstance(name, str) else None, address if isinstance(address, str) else ""
    return _Call(*readable, params if isinstance(params, dict) else {})


def _scores(terms: Mapping[str, float], failures: AbstractSet[str] = frozenset()) -> Scores:
    failures = failures if terms["jv"] else failures | {"invalid_json"}
    weighted = 100.0 * math.fsum(weight * terms[name] for name, weight in WEIGHTS.items())
    detail = {name: terms[name] for name in ("ec", "cos", "jv", "ocp", "foc")}
    return Scores(terms["tm"], terms["pa"], terms["ta"], tuple(sorted(failures)), {"overall_weighted": weighted, **detail})


def _refusal(calls: Sequence[_Call], terms: Mapping[str, float], has_answer: bool) -> Scores:
    if all(call.name is not None and call.name.upper() in REFUSAL_NAMES for call in calls):
        return _scores({**dict.fromkeys(WEIGHTS, 1.0), "jv": terms["jv"], "foc": 1.0 if has_answer else 0.5})
    return _scores({**dict.fromkeys(WEIGHTS, 0.0), **terms}, {"missed_refusal"})


def _closing(final_answer: JsonValue) -> float:
    if not isinstance(final_answer, dict):
        return 0.0
    return 0.5 * bool(final_answer.get("summary")) + 0.5 * ("assumptions" in final_answer)


def _tool(call: _Call, gold: GoldCall) -> float:
    if call.name == gold.tool:
        return 1.0
    family = registry_family(call.name)
    return _OTHER_TOOL_SCORE if family is not None and family == registry_family(gold.tool) else 0.0


def _object(call: _Call, gold: GoldCall) -> float:
    return reference_object(call.params, gold.required, CALLING_RULES)


def _params(calls: Sequence[_Call], gold: GoldCall) -> float:
    return max((_object(call, gold) for call in calls if _tool(call, gold) > 0), default=0.0)


def _times(calls: Sequence[_Call], gold: GoldCall) -> float:
    if not gold.times:
        return 1.0
    return max((_fields(call.params, gold) for call in calls if call.name == gold.tool), default=0.0)


def _fields(params: Mapping[str, JsonValue], gold: GoldCall) -> float:
    fields, tolerance = time_fields(gold.times), tolerance_of(gold.times)
    if not fields:
        return 1.0
    return math.fsum(_field(params.get(name), expected, tolerance) for name, expected in fields.items()) / len(fields)


def _field(predicted: JsonValue, expected: JsonValue, tolerance: str) -> float:
    if expected is None:
        return 1.0
    if predicted is None:
        return 0.0
    left, right = (reference_time(text_of(value) or "") for value in (predicted, expected))
    return float(left is not None and right is not None and reference_within(left, right, tolerance))


def _address(call: _Call, gold: GoldCall) -> float:
    if gold.endpoint is None:
        return 1.0
    given, expected = (address.strip("/").lower() for address in (call.address, gold.endpoint))
    if given == expected:
        return 1.0
    return _FIRST_SEGMENT_SCORE if given.startswith(expected.partition("/")[0]) else 0.0


def _failures(calls: Sequence[_Call], golds: Sequence[GoldCall]) -> set[str]:
    """Failures as the public code logs them. It logs too much: calls that another expected call needs count against this one."""
    failures: set[str] = set()
    for gold in golds:
        before = takewhile(lambda call: call.name != gold.tool, calls)  # noqa: B023 - used up at once
        failures |= {"wrong_tool_action" if _tool(call, gold) > 0 else "wrong_tool_family" for call in before}
        if (address := max(_address(call, gold) for call in calls)) < 1:
            failures.add("wrong_endpoint" if address > 0 else "hallucinated_endpoint")
        fits = [call for call in calls if _tool(call, gold) > 0]
        best = max(fits, key=lambda call: _object(call, gold), default=None)
        if best is not None and _object(best, gold) > 0:
            failures |= reference_failures(best.params, gold.required, CALLING_RULES)
        if any(call.name == gold.tool and _fields(call.params, gold) < 1 for call in calls):
            failures.add("wrong_time_value")
    positions = _positions(calls, golds)
    if len(positions) > 1 and inverted_share(positions) > 0:
        failures.add("wrong_call_order")
    return failures


def _order(calls: Sequence[_Call], golds: Sequence[GoldCall]) -> float:
    """1 less the share of matched pairs that stand the wrong way round; expected calls that are absent cost nothing."""
    if len(golds) <= 1:
        return 1.0
    positions = _positions(calls, golds)
    return 1.0 - inverted_share(positions) if len(positions) > 1 else 0.0


def _positions(calls: Sequence[_Call], golds: Sequence[GoldCall]) -> list[int]:
    """For each expected call in turn the first position of its name that no earlier one took; absent names are left out."""
    taken: list[int] = []
    for gold in golds:
        position = next((index for index, call in enumerate(calls) if call.name == gold.tool and index not in taken), None)
        if position is not None:
            taken.append(position)
    return taken


def inverted_share(positions: Sequence[int]) -> float:
    """Share of pairs of at least two positions that stand in falling order."""
    pairs = list(combinations(positions, 2))
    return sum(first > second for first, second in pairs) / len(pairs)
