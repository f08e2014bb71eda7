"""From a model's raw text to its calls, as the public code of the calling suite reads it. Never raises.

Steps: trim; drop one code fence before (with or without the word `json`) and one after; read as JSON, which is valid. Else the
part from the first `{` to the last `}`, else the whole without commas before a closing bracket: both are read, but the reply is
not valid JSON. What is left is unreadable, and so is a root that is no object, on which the public code raises.
JSON is strict here: NaN and infinities, numbers of thousands of digits, nesting beyond the parser's depth, and texts longer
than `MAX_REPLY_CHARS` are unreadable; `problem` says which.

The calls are `tool_plan` or, where that is empty, `thoughtless_plan`. Anything that departs from the asked form (see
`violations`) makes the reply invalid without changing the calls.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ktdeval.jsonio import JsonValue, loads_strict

MAX_REPLY_CHARS: Final = 4_000_000
CALL_KEYS: Final = ("tool_name", "method", "endpoint", "params")
METHODS: Final = ("GET", "POST")

_FENCE: Final = "```"
_TRAILING_COMMA: Final = re.compile(r",\s*([}\]])")


@dataclass(frozen=True)
class ParsedReply:
    """Content of one reply.
    `is_readable`: whether JSON with an object at its root was found; `json_valid`: whether the reply was JSON of the asked form as
    it stood; `calls`: the planned calls, as given; `final_answer`: the closing answer, as given; None if it is absent or no object;
    `violations`: departures from the asked form, one line each; `problem`: why the reply is unreadable, None if it is not.
    """

    is_readable: bool
    json_valid: bool
    calls: tuple[JsonValue, ...] = ()
    final_answer: Mapping[str, JsonValue] | None = None
    violations: tuple[str, ...] = ()
    problem: str | None = None


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
    except RecursionError:
        return None, "the JSON is nested too deep"
    except ValueError as error:
        return None, f"not JSON: {error}"


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
