"""Reading predicted calls under the paper rules: whatever a model gave, it is a call with a name and arguments, or it is not."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ktdeval.api import JsonValue
from ktdeval_qfinzero.scoring.families import is_refusal_name

MAX_DEPTH: Final = 64
MAX_INTEGER_BITS: Final = 4096


@dataclass(frozen=True)
class PredictedCall:
    """One readable call.

    Args:
        index: its place in the answer, from 0.
        tool: the name as given.
        args: the arguments; empty where none were given.
        endpoint: the address as given, empty where none was.
        content: name and arguments as canonical text; equal for calls that ask for the same.
    """

    index: int
    tool: str
    args: Mapping[str, JsonValue]
    endpoint: str
    content: str

    @property
    def is_refusal(self) -> bool:
        """Whether this is a pseudo-call that refuses instead of calling a service."""
        return is_refusal_name(self.tool)


def read_calls(predicted: Sequence[JsonValue]) -> tuple[tuple[PredictedCall, ...], int]:
    """The readable calls in order, and how many items were none.

    A call is an object with a text `tool_name` or `tool` that is not blank, and `params` or `args` that are an object, null or
    absent, nested at most `MAX_DEPTH` levels.
    """
    calls = tuple(call for index, item in enumerate(predicted) if (call := _read(item, index)) is not None)
    return calls, len(predicted) - len(calls)


def _read(item: JsonValue, index: int) -> PredictedCall | None:
    if not isinstance(item, dict):
        return None
    tool = item.get("tool_name") if "tool_name" in item else item.get("tool")
    args = item.get("params") if "params" in item else item.get("args")
    args = {} if args is None else args
    if not isinstance(tool, str) or not tool.strip() or not isinstance(args, dict) or not is_plain(args):
        return None
    endpoint = item.get("endpoint")
    content = json.dumps([tool, args], sort_keys=True)
    return PredictedCall(index, tool, args, endpoint if isinstance(endpoint, str) else "", content)


def is_plain(value: JsonValue) -> bool:
    """Whether a value holds nothing but JSON, is nested at most `MAX_DEPTH` levels and has no number of thousands of digits."""
    level = [value]
    for _ in range(MAX_DEPTH):
        inner: list[JsonValue] = []
        for item in level:
            if isinstance(item, dict):
                if not all(isinstance(key, str) for key in item):
                    return False
                inner.extend(item.values())
            elif isinstance(item, list):
                inner.extend(item)
            elif not _is_plain_scalar(item):
                return False
        if not inner:
            return True
        level = inner
    return False


def _is_plain_scalar(value: JsonValue) -> bool:
    if isinstance(value, int):
        return value.bit_length() <= MAX_INTEGER_BITS
    return value is None or isinstance(value, str | float)
