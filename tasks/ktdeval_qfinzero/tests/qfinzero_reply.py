"""A raw reply of the calling suite read and scored as the public code does it: what its raw vectors
are compared with.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ktdeval.values import JsonValue, loads_strict
from ktdeval_qfinzero.scoring.public_code_calling import WEIGHTS, score_calling
from ktdeval_qfinzero.scoring.types import AnswerScores, GoldTask

_TRAILING_COMMA = re.compile(r",\s*([}\]])")


def score_reply(task: GoldTask, text: str) -> tuple[AnswerScores, bool, int]:
    """Scores of a reply, whether it was JSON of the asked form as it stood, and how many departures
    from the form it has.
    """
    bare = text.strip()

    if bare.startswith("```"):
        bare = bare.removeprefix("```").removeprefix("json").lstrip()

    bare = bare.removesuffix("```").rstrip()
    start = bare.find("{")
    end = bare.rfind("}")
    readings = (
        bare,
        bare[start : end + 1] if 0 <= start < end else "",
        _TRAILING_COMMA.sub(r"\1", bare),
    )
    whole, root = next(
        ((reading is bare, root) for reading in readings if (root := _load(reading)) is not None),
        (False, None),
    )

    if not isinstance(root, dict):  # all 0, except that no surplus call was made
        detail = {
            "overall_weighted": 100.0 * WEIGHTS["ocp"],
            "ocp": 1.0,
            **dict.fromkeys(("ec", "cos", "jv", "foc"), 0.0),
        }
        return AnswerScores(0.0, 0.0, 0.0, ("invalid_json",), detail), False, 0

    plan = root.get("tool_plan") or root.get("thoughtless_plan") or []
    answer = root.get("final_answer")
    calls = plan if isinstance(plan, list) else []
    departures = (not isinstance(plan, list)) + (
        not isinstance(answer, dict) or "summary" not in answer
    )
    departures += sum(map(_departures, calls))
    closing = answer if isinstance(answer, dict) else None

    return (
        score_calling(task, calls, whole and not departures, closing),
        whole and not departures,
        departures,
    )


def _load(text: str) -> Any:
    try:
        return loads_strict(text)
    except ValueError:
        return None


def _departures(call: JsonValue) -> int:
    if not isinstance(call, Mapping):
        return 1

    absent = sum(key not in call for key in ("tool_name", "method", "endpoint", "params"))
    return absent + ("method" in call and call["method"] not in ("GET", "POST"))
