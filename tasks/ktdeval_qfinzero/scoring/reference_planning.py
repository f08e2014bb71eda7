"""Planning suite as the public code scores it, quirks and all (conformance with published figures; not the rules to rank by).

As in the calling suite each metric takes, for each expected step, the best score of any predicted call; what differs is in
`docs/qfinzero-scoring.md`. Calls that the public code raises on (not an object, a name that is not text) take no part;
arguments that are not an object earn 0. `detail` holds `tm_name_only` and `overall_name_only`, the paper's TM by name and its mean,
and the composite `overall_weighted` (0 to 100) with its terms as of a run without services: `dc` (order and ids), `rs` (recovery),
`ef` (1 less 0.15 for each surplus call), `ss` and `er`, which only a live run could lower.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from ktdeval.jsonio import JsonValue
from ktdeval_qfinzero.scoring.reference_calling import inverted_share
from ktdeval_qfinzero.scoring.types import PLANNING_ENDPOINTS, RUN_IDS, GoldCall, GoldTask, Scores, prefix_family, with_run_ids
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

# Episodes in which the second step must be tried again; `rs` looks for a call like it.
_RECOVERY_TASKS: Final = frozenset({"ms-005", "ms-009", "ms-020"})
_RUN_ID_PLACEHOLDERS: Final = tuple(f"{{{name}}}" for name in RUN_IDS)
_PATH_IDS: Final = ("{order_id}", "{event_id}", "{news_id}")
_OTHER_TOOL_SCORE: Final = 0.5
_FIRST_SEGMENT_SCORE: Final = 0.3
_SURPLUS_COST: Final = 0.15


@dataclass(frozen=True)
class _Call:
    """A predicted call with the address and method that it names or that its name implies; `args` is None if not an object."""

    name: str
    address: str
    method: str
    args: Mapping[str, JsonValue] | None


def score_planning(
    task: GoldTask, predicted: Sequence[JsonValue], run_context: Mapping[str, str], json_valid: bool = True
) -> Scores:
    """Score the calls of one plan.
    `predicted`: objects with `tool` and `args`, and perhaps `endpoint` and `method`; anything else is tolerated; `run_context`:
    `session_id` and `account_id` of the run; `json_valid`: whether the reply was JSON; an unreadable reply without calls earns
    nothing at all.
    """
    is_recovery = task.id in _RECOVERY_TASKS
    if not predicted and not json_valid:
        nothing = {**dict.fromkeys(WEIGHTS, 0.0), "tm_name_only": 0.0, "er": 1.0, "ef": 1.0}  # no fault in the run either
        return _scores({**nothing, "rs": float(not is_recovery)}, {"invalid_json"})
    calls = [call for item in predicted if (call := _read(item)) is not None]
    steps = [_with_ids(step, run_context) for step in task.calls]
    count = len(steps) or 1
    surplus = max(0, len(predicted) - len(steps))
    terms = {
        "tm_name_only": math.fsum(max((_name(call.name, step.tool) for call in calls), default=0.0) for step in steps) / count,
        "tm": math.fsum(max((_tool(call, step) for call in calls), default=0.0) for step in steps) / count,
        "pa": math.fsum(_params(calls, step) for step in steps) / count,
        "ta": math.fsum(_times(calls, step) for step in steps) / count,
        "ss": 1.0,
        "er": 1.0,
        "dc": _dependencies(calls, task.calls),
        "rs": float(not is_recovery or any(_name(call.name, again.tool) > 0 for again in steps[1:2] for call in calls)),
        "ef": max(0.0, 1.0 - _SURPLUS_COST * surplus),
    }
    failures = {name for step in steps for name in _failures(calls, step)}
    failures |= {"false_refusal"} if not predicted else set()
    failures |= {"redundant_call"} if surplus else set()
    failures |= {"wrong_call_order"} if _order(calls, task.calls) < 1 else set()
    failures |= {"recovery_failed"} if not terms["rs"] else set()
    return _scores(terms, failures)


def _scores(terms: Mapping[str, float], failures: AbstractSet[str]) -> Scores:
    detail = {
        "tm_name_only": terms["tm_name_only"],
        "overall_name_only": (terms["tm_name_only"] + terms["pa"] + terms["ta"]) / 3.0 * 100.0,
        "overall_weighted": 100.0 * math.fsum(weight * terms[name] for name, weight in WEIGHTS.items()),
        **{name: terms[name] for name in ("dc", "rs", "ef", "ss", "er")},
    }
    return Scores(terms["tm"], terms["pa"], terms["ta"], tuple(sorted(failures)), detail)


def _read(item: JsonValue) -> _Call | None:
    if not isinstance(item, dict) or not isinstance(name := item.get("tool", ""), str):
        return None
    implied_address, implied_method = PLANNING_ENDPOINTS.get(name, ("", ""))
    address, method, args = item.get("endpoint"), item.get("method"), item.get("args", {})
    return _Call(
        name,
        address if isinstance(address, str) and address else implied_address,
        method.upper() if isinstance(method, str) and method else implied_method,
        args if isinstance(args, dict) else None,
    )


def _with_ids(step: GoldCall, run_context: Mapping[str, str]) -> GoldCall:
    """Step with the run's ids in its parameters and address, and without the ids that only an address holds."""
    endpoint = step.endpoint
    if endpoint is not None:
        endpoint = str(_substituted(endpoint, run_context))
        for path_id in _PATH_IDS:
            endpoint = endpoint.replace(path_id, "")
    required: dict[str, JsonValue] = {key: _substituted(value, run_context) for key, value in step.required.items()}
    return GoldCall(step.tool, endpoint, step.method, required, step.optional, step.times, step.step_id)


def _substituted(value: JsonValue, run_context: Mapping[str, str]) -> JsonValue:
    if isinstance(value, str):
        return with_run_ids(value, run_context)
    if isinstance(value, dict):
        return {key: _substituted(inner, run_context) for key, inner in value.items()}
    return [_substituted(inner, run_context) for inner in value] if isinstance(value, list) else value


def _name(name: str, expected: str) -> float:
    if name == expected:
        return 1.0
    return _OTHER_TOOL_SCORE if prefix_family(name) == prefix_family(expected) else 0.0


def _tool(call: _Call, step: GoldCall) -> float:
    method = float(not call.method or call.method == (step.method or "").upper())
    return 0.5 * _name(call.name, step.tool) + 0.3 * _address(call.address, step.endpoint) + 0.2 * method


def _address(given: str, expected: str | None) -> float:
    if expected is None:
        return 1.0
    left, right = ([part for part in address.lower().split("/") if part] for address in (given, expected))
    if left == right:
        return 1.0
    if len(left) == len(right):
        return sum(a == b for a, b in zip(left, right, strict=True)) / len(left)
    return _FIRST_SEGMENT_SCORE if left[:1] == right[:1] else 0.0


def _candidates(calls: Sequence[_Call], step: GoldCall) -> list[_Call]:
    return [call for call in calls if _name(call.name, step.tool) > 0]


def _params(calls: Sequence[_Call], step: GoldCall) -> float:
    return max((_object(call, step) for call in _candidates(calls, step)), default=0.0)


def _object(call: _Call, step: GoldCall) -> float:
    if not step.required:
        return 1.0
    return 0.0 if call.args is None else reference_object(call.args, step.required, PLANNING_RULES)


def _times(calls: Sequence[_Call], step: GoldCall) -> float:
    if not time_fields(step.times):
        return 1.0
    return max((_fields(call, step) for call in _candidates(calls, step)), default=0.0)


def _fields(call: _Call, step: GoldCall) -> float:
    args, fields, tolerance = call.args or {}, time_fields(step.times), tolerance_of(step.times)
    return math.fsum(_field(args.get(name), expected, tolerance) for name, expected in fields.items()) / len(fields)


def _field(predicted: JsonValue, expected: JsonValue, tolerance: str) -> float:
    if expected is None:
        return 1.0
    left, right = text_of(predicted), text_of(expected)
    if predicted is None or left is None or right is None:
        return 0.0
    predicted_time, expected_time = reference_time(left.strip()), reference_time(right.strip())
    if predicted_time is None or expected_time is None:
        return float(left.lower() == right.lower())
    return float(reference_within(predicted_time, expected_time, tolerance))


def _failures(calls: Sequence[_Call], step: GoldCall) -> set[str]:
    """Failures of a step as the public code logs them. It logs too much: each call of the family that misses a time counts."""
    failures: set[str] = set()
    tool = max((_tool(call, step) for call in calls), default=0.0)
    if tool < 1:
        failures.add("wrong_tool_action" if tool >= 0.5 else "wrong_tool_family" if tool > 0 else "missing_call")
    candidates = _candidates(calls, step)
    best = max(candidates, key=lambda call: _object(call, step), default=None)
    if best is not None and best.args is not None and _object(best, step) > 0:
        failures |= reference_failures(best.args, step.required, PLANNING_RULES)
    if time_fields(step.times) and any(_fields(call, step) < 1 for call in candidates):
        failures.add("wrong_time_value")
    return failures


def _dependencies(calls: Sequence[_Call], steps: Sequence[GoldCall]) -> float:
    """0.6 of the order of the calls and 0.4 of the steps whose run ids some call names; 1 without any call."""
    if not calls:
        return 1.0
    named = math.fsum(1.0 if _names_ids(_candidates(calls, step), step) else 0.5 for step in steps) / (len(steps) or 1)
    return 0.6 * _order(calls, steps) + 0.4 * named


def _order(calls: Sequence[_Call], steps: Sequence[GoldCall]) -> float:
    """1 less the share of inverted pairs, where each step in turn takes the first call of its family that is left."""
    positions: list[int] = []
    for step in steps:
        fits = (index for index, call in enumerate(calls) if index not in positions and _name(call.name, step.tool) > 0)
        position = next(fits, None)
        if position is not None:
            positions.append(position)
    return 1.0 - inverted_share(positions) if len(positions) > 1 else 1.0


def _names_ids(fits: Sequence[_Call], step: GoldCall) -> bool:
    """Whether one call of the step's family gives all the run ids that the step asks for, whatever their values."""
    id_names = [key for key, value in step.required.items() if value in _RUN_ID_PLACEHOLDERS]
    return not id_names or any(all((call.args or {}).get(key) for key in id_names) for call in fits)
