"""From a raw text to the calls in it, and to their scores, as the public code has it: what its raw vectors are compared with.

Nothing here raises; `problem` says why a text is unreadable.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ktdeval.jsonio import TOO_DEEP, JsonValue, loads_strict
from ktdeval_qfinzero.scoring.reference_calling import WEIGHTS, score_calling
from ktdeval_qfinzero.scoring.types import GoldTask, Scores

MAX_REPLY_CHARS: Final = 4_000_000
CALL_KEYS: Final = ("tool_name", "method", "endpoint", "params")
METHODS: Final = ("GET", "POST")

_FENCE: Final = "```"
_TRAILING_COMMA: Final = re.compile(r",\s*([}\]])")


@dataclass(frozen=True)
class ParsedReply:
    """Content of one reply."""

    is_readable: bool  # whether JSON with an object at its root was found
    json_valid: bool  # whether the reply was JSON of the asked form as it stood
    calls: tuple[JsonValue, ...] = ()  # planned, as given
    final_answer: Mapping[str, JsonValue] | None = None  # as given; None if it is absent or no object
    violations: tuple[str, ...] = ()  # departures from the asked form, one line each
    problem: str | None = None  # why the reply is unreadable


def parse_reply(text: str) -> ParsedReply:
    """Read the reply of a model in the calling suite."""
    if len(text) > MAX_REPLY_CHARS:
        return _unreadable(f"the reply has {len(text)} characters, more than {MAX_REPLY_CHARS}")
    bare = strip_fences(text)
    root, problem = _load(bare)
    valid = problem is None
    if problem is not None:
        root, second_problem = _mend(bare)
        if second_problem is not None:
            return _unreadable(problem)
    if not isinstance(root, dict):
        return _unreadable(f"the root of the reply is {type(root).__name__}, not an object")
    violations = tuple(_violations(root))
    answer = root.get("final_answer")
    return ParsedReply(
        is_readable=True,
        json_valid=valid and not violations,
        calls=tuple(_calls(root)),
        final_answer=answer if isinstance(answer, dict) else None,
        violations=violations,
    )


def strip_fences(text: str) -> str:
    """Text without blanks around it and without one code fence at each end."""
    text = text.strip()
    if text.startswith(_FENCE):
        text = text.removeprefix(_FENCE).removeprefix("json").lstrip()
    if text.endswith(_FENCE):
        text = text.removesuffix(_FENCE).rstrip()
    return text


def _unreadable(problem: str) -> ParsedReply:
    return ParsedReply(is_readable=False, json_valid=False, problem=problem)


def _load(text: str) -> tuple[JsonValue, str | None]:
    try:
        return loads_strict(text), None
    except ValueError as error:
        return None, "the JSON is nested too deep" if str(error) == TOO_DEEP else f"not JSON: {error}"


def _mend(text: str) -> tuple[JsonValue, str | None]:
    """Read the outermost object of a text around it, or the text without surplus commas."""
    start, end = text.find("{"), text.rfind("}")
    if 0 <= start < end:
        root, problem = _load(text[start : end + 1])
        if problem is None:
            return root, None
    return _load(_TRAILING_COMMA.sub(r"\1", text))


def _calls(root: Mapping[str, JsonValue]) -> list[JsonValue]:
    plan = root.get("tool_plan") or root.get("thoughtless_plan")
    return plan if isinstance(plan, list) else []


def _violations(root: Mapping[str, JsonValue]) -> list[str]:
    plan = root.get("tool_plan") or root.get("thoughtless_plan") or []
    found = [] if isinstance(plan, list) else ["the plan is not a list"]
    for index, call in enumerate(_calls(root)):
        found.extend(f"call {index}: {line}" for line in _call_violations(call))
    answer = root.get("final_answer")
    if not isinstance(answer, dict):
        found.append("final_answer is absent or not an object")
    elif "summary" not in answer:
        found.append("final_answer has no summary")
    return found


def _call_violations(call: JsonValue) -> list[str]:
    if not isinstance(call, dict):
        return ["not an object"]
    found = [f"{key} is absent" for key in CALL_KEYS if key not in call]
    if "method" in call and call["method"] not in METHODS:
        found.append("the method is neither GET nor POST")
    return found


def score_unreadable(_task: GoldTask) -> Scores:
    """Score a reply without readable JSON: all 0, except that no surplus call was made."""
    detail = dict.fromkeys(("ec", "cos", "jv", "foc"), 0.0)
    return Scores(0.0, 0.0, 0.0, ("invalid_json",), {"overall_weighted": 100.0 * WEIGHTS["ocp"], "ocp": 1.0, **detail})


def score_reply(task: GoldTask, text: str) -> tuple[Scores, ParsedReply]:
    """Read a model's raw text and score it; the parsed reply comes with the scores."""
    reply = parse_reply(text)
    if not reply.is_readable:
        return score_unreadable(task), reply
    return score_calling(task, reply.calls, reply.json_valid, reply.final_answer), reply
