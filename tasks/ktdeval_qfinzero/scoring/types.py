"""Plain types that the rule sets share: expected calls, tasks and scores; tool names with their
families and addresses; calls as given by a model, readable or not; and the run ids that calls must
carry.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal

from ktdeval.values import JsonValue, csv_rows
from ktdeval_qfinzero.scoring.values import is_placeholder

Suite = Literal["calling", "planning"]

REFUSE: Final = "REFUSE"
METRICS: Final = ("tm", "pa", "ta")


@dataclass(frozen=True)
class GoldCall:
    """One expected call. `notes` are from the author."""

    tool: str  # dotted name, or `REFUSE`
    # service path, with `{name}` for parts known only at run time; None for a refusal
    endpoint: str | None = None
    method: str | None = None  # GET or POST; None for a refusal
    # parameters that PA checks, as JSON
    required: Mapping[str, JsonValue] = field(default_factory=dict)
    # parameters that no metric reads
    optional: Mapping[str, JsonValue] = field(default_factory=dict)
    # expected values of time fields, with `format` and `tolerance`
    times: Mapping[str, JsonValue] = field(default_factory=dict)
    step_id: str | None = None  # id of a planning step
    notes: str = ""


@dataclass(frozen=True)
class GoldTask:
    """One instruction with the calls that carry it out, in order. `notes` are from the author."""

    id: str  # unique within a file
    suite: Suite
    category: str  # scores are also summarised by category
    difficulty: str
    instruction: str  # with placeholders `{session_id}` and `{account_id}` that a run fills in
    calls: tuple[GoldCall, ...]  # at least one call in a loaded task
    notes: str = ""
    # facts of the episode that no metric reads
    truth: Mapping[str, JsonValue] = field(default_factory=dict)

    @property
    def refuse(self) -> bool:
        """True if the right answer is to make no call."""
        return any(call.tool == REFUSE for call in self.calls)


@dataclass(frozen=True)
class AnswerScores:
    """Scores of one answer to one task: tool match, parameter accuracy and time alignment, each
    from 0 to 1.
    """

    tm: float
    pa: float
    ta: float
    failure_modes: tuple[str, ...] = ()  # sorted, without duplicates
    detail: Mapping[str, JsonValue] = field(default_factory=dict)  # further figures of the rule set

    @property
    def overall(self) -> float:
        """Unrounded arithmetic mean of TM, PA and TA on a scale from 0 to 100 (paper, Table 2)."""
        return (self.tm + self.pa + self.ta) / 3.0 * 100.0


UNKNOWN_FAMILY: Final = "UNKNOWN"
PREFIXES: Final = ("UPQ", "ESP", "PMB")

# Pseudo-calls that mean "I will not do this" (compared in upper case).
REFUSAL_NAMES: Final = frozenset({"REFUSE", "CANNOT_COMPLY", "NONE"})

_ROWS: Final = csv_rows(Path(__file__).with_name("tools.csv"))

# Name -> (address, method) of the 26 service tools.
SERVICE_TOOLS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {row["name"]: (row["path"], row["method"]) for row in _ROWS if row["is_public"] == "yes"}
)

# Service tools that the public registry does not have.
FURTHER_TOOLS: Final = frozenset(row["name"] for row in _ROWS) - SERVICE_TOOLS.keys()

# Name -> (address, method) that the planning reference assumes for a call that names neither. The
# public planning scorer has addresses for 24 of the 26, because a run creates its account and
# session before an episode begins.
PLANNING_ENDPOINTS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        name: address
        for name, address in SERVICE_TOOLS.items()
        if name not in ("PMB.account.create", "PMB.session.create")
    }
)

# Name -> family for all 27 registered names; the refusal is its own family.
REGISTRY: Final[Mapping[str, str]] = MappingProxyType(
    {**{name: name.partition(".")[0] for name in SERVICE_TOOLS}, "REFUSE": "REFUSE"}
)


def registry_family(name: str | None) -> str | None:
    """Return the family of a registered name, looked up exactly and case-sensitively; None for any
    other name.
    """
    return REGISTRY.get(name) if name is not None else None


def known_family(name: str) -> str | None:
    """Return the family of a tool that a service has, public or in `FURTHER_TOOLS`; None for any
    other name.
    """
    return name.partition(".")[0] if name in FURTHER_TOOLS else registry_family(name)


@lru_cache(maxsize=1_000)
def prefix_family(name: str) -> str:
    """Return the family given by a name's prefix, or `UNKNOWN`. This is the planning reference's
    rule.
    """
    return next((prefix for prefix in PREFIXES if name.startswith(prefix)), UNKNOWN_FAMILY)


# ---- predicted calls

MAX_DEPTH: Final = 64
MAX_INTEGER_BITS: Final = 4096
RUN_IDS: Final = ("session_id", "account_id")


@dataclass(frozen=True)
class PredictedCall:
    """One readable call; `args` and `endpoint` are empty if not given."""

    index: int  # position in the answer, from 0
    tool: str
    args: Mapping[str, JsonValue]
    endpoint: str
    content: str  # name and arguments as canonical text, which is equal for equivalent calls

    @property
    def is_refusal(self) -> bool:
        """True if this is a pseudo-call that refuses instead of calling a service."""
        return self.tool.strip().upper() in REFUSAL_NAMES


def read_calls(predicted: Sequence[JsonValue]) -> tuple[tuple[PredictedCall, ...], int]:
    """Return the readable calls in order, and the number of other items.

    A readable call is an object with a non-blank string `tool_name` or `tool`, and with `params` or
    `args` that are an object, null or absent, nested at most `MAX_DEPTH` levels.
    """
    read = (_read_call(item, index) for index, item in enumerate(predicted))
    calls = tuple(call for call in read if call is not None)
    return calls, len(predicted) - len(calls)


def _read_call(item: JsonValue, index: int) -> PredictedCall | None:
    if not isinstance(item, dict):
        return None

    tool = item.get("tool_name") if "tool_name" in item else item.get("tool")
    args = item.get("params") if "params" in item else item.get("args")
    if args is None:
        args = {}
    if not isinstance(tool, str) or not tool.strip():
        return None
    if not isinstance(args, dict) or not is_plain(args):
        return None

    endpoint = item.get("endpoint")
    if not isinstance(endpoint, str):
        endpoint = ""

    content = json.dumps([tool, args], sort_keys=True)
    return PredictedCall(index, tool, args, endpoint, content)


def is_plain(value: JsonValue) -> bool:
    """Return whether a value contains only JSON, is nested at most `MAX_DEPTH` levels and has no
    integer of more than `MAX_INTEGER_BITS` bits.
    """
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
    """Replace `{session_id}` and `{account_id}` in a text by the run's ids, if known."""
    for name in RUN_IDS:
        if name in run_context:
            text = text.replace(f"{{{name}}}", run_context[name])
    return text


def expected_ids(gold: GoldCall, run_context: Mapping[str, str]) -> dict[str, str]:
    """Return name -> id for the ids that are known before the run: parameters that are an id of the
    run, and parts of the address.
    """
    placeholders = [f"{{{name}}}" for name in RUN_IDS]
    named = {key: value for key, value in gold.required.items() if value in placeholders}
    in_path = _path_ids(gold.tool, gold.endpoint or "")

    ids: dict[str, str] = {}
    for name, value in {**named, **in_path}.items():
        filled = with_run_ids(value, run_context)
        if not is_placeholder(filled):
            ids[name] = filled

    return ids


def given_ids(gold: GoldCall, call: PredictedCall) -> dict[str, str]:
    """Return name -> id as the call gives it, in its arguments or else in its address."""
    named = {key: value for key, value in call.args.items() if isinstance(value, str)}
    return {**_path_ids(gold.tool, call.endpoint), **named}


def _path_ids(tool: str, endpoint: str) -> dict[str, str]:
    """Return the parts of an address where the tool's address has a `{name}`; empty if the address
    has another form.
    """
    template = SERVICE_TOOLS.get(tool, ("", ""))[0].split("/")
    parts = endpoint.rstrip("/").split("/")
    if len(parts) != len(template):
        return {}
    return {
        name[1:-1]: part for name, part in zip(template, parts, strict=True) if name.startswith("{")
    }
