"""Predicted calls under the paper rules: whatever a model gave, it is a call with a name and arguments, or it is not.

And the ids that a call has to carry but PA does not look at: those of the run, and those that stand in an address.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ktdeval.jsonio import JsonValue
from ktdeval_qfinzero.scoring.types import SERVICE_TOOLS, GoldCall, is_refusal_name
from ktdeval_qfinzero.scoring.values import is_placeholder

MAX_DEPTH: Final = 64
MAX_INTEGER_BITS: Final = 4096
RUN_IDS: Final = ("session_id", "account_id")


@dataclass(frozen=True)
class PredictedCall:
    """One readable call; `args` and `endpoint` are empty where none were given."""

    index: int  # place in the answer, from 0
    tool: str
    args: Mapping[str, JsonValue]
    endpoint: str
    content: str  # name and arguments as canonical text; equal for calls that ask for the same

    @property
    def is_refusal(self) -> bool:
        """Whether this is a pseudo-call that refuses instead of calling a service."""
        return is_refusal_name(self.tool)


def read_calls(predicted: Sequence[JsonValue]) -> tuple[tuple[PredictedCall, ...], int]:
    """Readable calls in order, and how many items were none.
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
            match item:
                case dict() if all(isinstance(key, str) for key in item):
                    inner.extend(item.values())
                case list():
                    inner.extend(item)
                case int() if item.bit_length() > MAX_INTEGER_BITS:
                    return False
                case None | str() | float() | int():
                    pass
                case _:
                    return False
        if not inner:
            return True
        level = inner
    return False


# ---- ids


def with_run_ids(text: str, run_context: Mapping[str, str]) -> str:
    """Text with `{session_id}` and `{account_id}` replaced by those of the run, as far as it has them."""
    for name in RUN_IDS:
        if name in run_context:
            text = text.replace(f"{{{name}}}", run_context[name])
    return text


def expected_ids(gold: GoldCall, run_context: Mapping[str, str]) -> dict[str, str]:
    """Name -> id for the ids that are known before the run: parameters that are a run's id, and parts of the address."""
    placeholders = [f"{{{name}}}" for name in RUN_IDS]
    named = {key: value for key, value in gold.required.items() if value in placeholders}
    found = {**named, **_path_ids(gold.tool, gold.endpoint or "")}
    filled = {name: with_run_ids(value, run_context) for name, value in found.items()}
    return {name: value for name, value in filled.items() if not is_placeholder(value)}


def given_ids(gold: GoldCall, call: PredictedCall) -> dict[str, str]:
    """Name -> id as the call gives it, in its arguments or else in its address."""
    return {**_path_ids(gold.tool, call.endpoint), **{key: value for key, value in call.args.items() if isinstance(value, str)}}


def _path_ids(tool: str, endpoint: str) -> dict[str, str]:
    """Parts of an address that stand where the tool's address has a `{name}`; none for an address of another form."""
    template = SERVICE_TOOLS.get(tool, ("", ""))[0].split("/")
    parts = endpoint.rstrip("/").split("/")
    if len(parts) != len(template):
        return {}
    return {name[1:-1]: part for name, part in zip(template, parts, strict=True) if name.startswith("{")}
