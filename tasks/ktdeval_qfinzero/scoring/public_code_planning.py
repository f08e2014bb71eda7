"""Planning suite as the public code scores it, with all its quirks (for comparison with published
figures, not for ranking).

As in the calling suite, each metric takes, for each expected step, the best score of any predicted
call; `docs/qfinzero-scoring.md` lists the differences. Calls on which the public code raises (not
an object, a name that is not a string) are ignored; arguments that are not an object earn 0.

`detail` contains `tm_name_only` and `overall_name_only` (the paper's TM by name, and the mean with
it). It also contains the composite `overall_weighted` (0 to 100) with its terms for a run without
services: `dc` (order and ids), `rs` (recovery), `ef` (1 minus 0.15 per surplus call), and `ss` and
`er`, which only a live run could lower.
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
    PLANNING_ENDPOINTS,
    RUN_IDS,
    AnswerScores,
    GoldCall,
    GoldTask,
    prefix_family,
    with_run_ids,
)
from ktdeval_qfinzero.scoring.values import (
    PLANNING_RULES,
    reference_failures,
    reference_object,
    reference_time,
    reference_within,
    text_of,
    time_fields,
    tolerance_of,
)

WEIGHTS: Final[Mapping[str, float]] = MappingProxyType(
    {"tm": 0.20, "pa": 0.20, "ta": 0.10, "ss": 0.10, "dc": 0.15, "er": 0.10, "rs": 0.10, "ef": 0.05}
)

# Episodes in which the second step must be retried; `rs` looks for a similar call.
_RECOVERY_TASKS: Final = frozenset({"ms-005", "ms-009", "ms-020"})
_RUN_ID_PLACEHOLDERS: Final = tuple(f"{{{name}}}" for name in RUN_IDS)
_PATH_IDS: Final = ("{order_id}", "{event_id}", "{news_id}")
_SURPLUS_COST: Final = 0.15


@dataclass(frozen=True)
class _ParsedCall:
    """A predicted call with the address and method that it names or that its name implies. `args`
    is None if the arguments are not an object.
    """

    name: str
    address: str
    method: str
    args: Mapping[str, JsonValue] | None


def score_planning(
    task: GoldTask,
    predicted: Sequence[JsonValue],
    run_context: Mapping[str, str],
    json_valid: bool = True,
) -> AnswerScores:
    """Score the calls in one plan.

    `predicted`: objects with `tool` and `args`, and perhaps `endpoint` and `method`; anything else
    is tolerated. `run_context`: `session_id` and `account_id` of the run. `json_valid`: whether the
    reply was JSON; an unreadable reply without calls earns nothing at all.
    """
    is_recovery = task.id in _RECOVERY_TASKS
    if not predicted and not json_valid:
        # no surplus calls and no run errors either
        nothing = dict.fromkeys(WEIGHTS, 0.0) | {"tm_name_only": 0.0, "er": 1.0, "ef": 1.0}
        return _weighted_scores(nothing | {"rs": float(not is_recovery)}, {"invalid_json"})

    read = (_read_call(item) for item in predicted)
    calls = [call for call in read if call is not None]
    steps = [_with_ids(step, run_context) for step in task.calls]
    surplus = max(0, len(predicted) - len(steps))
    recovers = not is_recovery or _recovers(calls, steps)
    terms = {
        "tm_name_only": mean_or_zero([best_score(calls, step, _name_score) for step in steps]),
        "tm": mean_or_zero([best_score(calls, step, _tool_score) for step in steps]),
        "pa": mean_or_zero([_params(calls, step) for step in steps]),
        "ta": mean_or_zero([_times_score(calls, step) for step in steps]),
        "ss": 1.0,
        "er": 1.0,
        "dc": _dependencies(calls, task.calls),
        "rs": float(recovers),
        "ef": max(0.0, 1.0 - _SURPLUS_COST * surplus),
    }

    failures: set[str] = set()
    for step in steps:
        failures |= _step_failures(calls, step)
    if not predicted:
        failures.add("false_refusal")
    if surplus:
        failures.add("redundant_call")
    if _order_score(calls, task.calls) < 1:
        failures.add("wrong_call_order")
    if not recovers:
        failures.add("recovery_failed")

    return _weighted_scores(terms, failures)


def _recovers(calls: Sequence[_ParsedCall], steps: Sequence[GoldCall]) -> bool:
    """Return whether some call belongs to the family of the second step, which must be retried."""
    if len(steps) < 2:
        return False
    return bool(fitting_calls(calls, steps[1], _name_score))


def _weighted_scores(terms: Mapping[str, float], failures: AbstractSet[str]) -> AnswerScores:
    weighted = math.fsum(weight * terms[name] for name, weight in WEIGHTS.items())
    detail = {
        "tm_name_only": terms["tm_name_only"],
        "overall_name_only": (terms["tm_name_only"] + terms["pa"] + terms["ta"]) / 3.0 * 100.0,
        "overall_weighted": 100.0 * weighted,
        "dc": terms["dc"],
        "rs": terms["rs"],
        "ef": terms["ef"],
        "ss": terms["ss"],
        "er": terms["er"],
    }
    return AnswerScores(terms["tm"], terms["pa"], terms["ta"], tuple(sorted(failures)), detail)


def _read_call(item: JsonValue) -> _ParsedCall | None:
    """Return a readable call; None if the item is not an object, or its name is not a string."""
    name = item.get("tool", "") if isinstance(item, dict) else None
    if not isinstance(item, dict) or not isinstance(name, str):
        return None

    implied_address, implied_method = PLANNING_ENDPOINTS.get(name, ("", ""))
    address = item.get("endpoint")
    method = item.get("method")
    args = item.get("args", {})

    return _ParsedCall(
        name=name,
        address=address if isinstance(address, str) and address else implied_address,
        method=method.upper() if isinstance(method, str) and method else implied_method,
        args=args if isinstance(args, dict) else None,
    )


def _with_ids(step: GoldCall, run_context: Mapping[str, str]) -> GoldCall:
    """Return a step with the run's ids in its parameters and address, but without ids that appear
    only in the address.
    """
    endpoint = step.endpoint
    if endpoint is not None:
        endpoint = str(_substitute_values(endpoint, run_context))
        for path_id in _PATH_IDS:
            endpoint = endpoint.replace(path_id, "")

    required: dict[str, JsonValue] = {
        key: _substitute_values(value, run_context) for key, value in step.required.items()
    }
    return GoldCall(
        step.tool, endpoint, step.method, required, step.optional, step.times, step.step_id
    )


def _substitute_values(value: JsonValue, run_context: Mapping[str, str]) -> JsonValue:
    if isinstance(value, str):
        return with_run_ids(value, run_context)
    if isinstance(value, dict):
        return {key: _substitute_values(inner, run_context) for key, inner in value.items()}
    if isinstance(value, list):
        return [_substitute_values(inner, run_context) for inner in value]

    return value


def _name_score(call: _ParsedCall, step: GoldCall) -> float:
    if call.name == step.tool:
        return 1.0
    return OTHER_TOOL_SCORE if _is_of_family(call, step) else 0.0


def _is_of_family(call: _ParsedCall, step: GoldCall) -> bool:
    """Return whether a call is to the expected tool or to another tool of its family."""
    return prefix_family(call.name) == prefix_family(step.tool)


def _tool_score(call: _ParsedCall, step: GoldCall) -> float:
    """Return the weighted sum of the scores for name, address and method."""
    name = _name_score(call, step)
    address = _address(call.address, step.endpoint)
    method = float(not call.method or call.method == (step.method or "").upper())
    return 0.5 * name + 0.3 * address + 0.2 * method


def _address(given: str, expected: str | None) -> float:
    if expected is None:
        return 1.0

    left = _segments(given)
    right = _segments(expected)
    if left == right:
        return 1.0
    if len(left) == len(right):
        return sum(a == b for a, b in zip(left, right, strict=True)) / len(left)

    return FIRST_SEGMENT_SCORE if left[:1] == right[:1] else 0.0


def _segments(address: str) -> list[str]:
    return [part for part in address.lower().split("/") if part]


def _params(calls: Sequence[_ParsedCall], step: GoldCall) -> float:
    return best_score(fitting_calls(calls, step, _name_score), step, _args_score)


def _args_score(call: _ParsedCall, step: GoldCall) -> float:
    if not step.required:
        return 1.0
    if call.args is None:
        return 0.0

    return reference_object(call.args, step.required, PLANNING_RULES)


def _times_score(calls: Sequence[_ParsedCall], step: GoldCall) -> float:
    if not time_fields(step.times):
        return 1.0
    return best_score(fitting_calls(calls, step, _name_score), step, _fields)


def _fields(call: _ParsedCall, step: GoldCall) -> float:
    """Return the mean score of a call's time fields, of which there is at least one."""
    args = call.args or {}
    tolerance = tolerance_of(step.times)
    scores = [
        _field(args.get(name), expected, tolerance)
        for name, expected in time_fields(step.times).items()
    ]
    return mean_or_zero(scores)


def _field(predicted: JsonValue, expected: JsonValue, tolerance: str) -> float:
    if expected is None:
        return 1.0

    left = text_of(predicted)
    right = text_of(expected)
    if predicted is None or left is None or right is None:
        return 0.0

    predicted_time = reference_time(left.strip())
    expected_time = reference_time(right.strip())
    if predicted_time is None or expected_time is None:
        return float(left.lower() == right.lower())

    return float(reference_within(predicted_time, expected_time, tolerance))


def _step_failures(calls: Sequence[_ParsedCall], step: GoldCall) -> set[str]:
    """Return the failures of a step as the public code logs them. It logs too many: each call of
    the family that misses a time counts.
    """
    failures: set[str] = set()
    tool = best_score(calls, step, _tool_score)
    if tool <= 0:
        failures.add("missing_call")
    elif tool < 0.5:
        failures.add("wrong_tool_family")
    elif tool < 1:
        failures.add("wrong_tool_action")

    candidates = fitting_calls(calls, step, _name_score)
    best = max(candidates, key=lambda call: _args_score(call, step), default=None)
    if best is not None and best.args is not None and _args_score(best, step) > 0:
        failures |= reference_failures(best.args, step.required, PLANNING_RULES)

    if time_fields(step.times) and any(_fields(call, step) < 1 for call in candidates):
        failures.add("wrong_time_value")

    return failures


def _dependencies(calls: Sequence[_ParsedCall], steps: Sequence[GoldCall]) -> float:
    """Return 0.6 × call order + 0.4 × the mean over the steps of 1 if some call names the step's
    run ids, else 0.5. Return 1 without any call.
    """
    if not calls:
        return 1.0

    named = [
        1.0 if _names_ids(fitting_calls(calls, step, _name_score), step) else 0.5 for step in steps
    ]
    return 0.6 * _order_score(calls, steps) + 0.4 * mean_or_zero(named)


def _order_score(calls: Sequence[_ParsedCall], steps: Sequence[GoldCall]) -> float:
    """Return 1 minus the fraction of inverted pairs, where each step in turn takes the first
    remaining call of its family.
    """
    positions = taken_positions(calls, steps, _is_of_family)
    return 1.0 - inverted_share(positions) if len(positions) > 1 else 1.0


def _names_ids(fits: Sequence[_ParsedCall], step: GoldCall) -> bool:
    """Return whether one call of the step's family gives all the run ids that the step asks for,
    with any values.
    """
    id_names = [key for key, value in step.required.items() if value in _RUN_ID_PLACEHOLDERS]
    if not id_names:
        return True

    return any(_gives_all(call, id_names) for call in fits)


def _gives_all(call: _ParsedCall, names: Sequence[str]) -> bool:
    args = call.args or {}
    return all(args.get(name) for name in names)
