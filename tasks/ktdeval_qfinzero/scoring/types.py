"""Plain values that both rule sets share: expected calls, tasks and scores; tool names, their families and addresses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal

from ktdeval.jsonio import JsonValue, csv_rows

Suite = Literal["calling", "planning"]

REFUSE: Final = "REFUSE"
METRICS: Final = ("tm", "pa", "ta")


@dataclass(frozen=True)
class GoldCall:
    """One expected call. `notes` are the author's."""

    tool: str  # dotted name, or `REFUSE`
    endpoint: str | None = None  # path of the service, with `{name}` for what only a run can tell; None for a refusal
    method: str | None = None  # GET or POST; None for a refusal
    required: Mapping[str, JsonValue] = field(default_factory=dict)  # parameters that PA checks, as JSON
    optional: Mapping[str, JsonValue] = field(default_factory=dict)  # parameters that no metric reads
    times: Mapping[str, JsonValue] = field(default_factory=dict)  # time fields' expected values, `format` and `tolerance`
    step_id: str | None = None  # of a planning step
    notes: str = ""


@dataclass(frozen=True)
class GoldTask:
    """One instruction with the calls that carry it out, in order. `notes` are the author's."""

    id: str  # unique within a file
    suite: Suite
    category: str  # summaries are given for it
    difficulty: str
    instruction: str  # with `{session_id}` and `{account_id}` where a run fills them in
    calls: tuple[GoldCall, ...]  # at least one in a loaded task
    notes: str = ""
    truth: Mapping[str, JsonValue] = field(default_factory=dict)  # facts of the episode that no metric reads

    @property
    def refuse(self) -> bool:
        """Whether the right answer is to make no call."""
        return any(call.tool == REFUSE for call in self.calls)


@dataclass(frozen=True)
class Scores:
    """Scores of one answer on one task: tool match, parameter accuracy and time alignment, each from 0 to 1."""

    tm: float
    pa: float
    ta: float
    failure_modes: tuple[str, ...] = ()  # sorted, each once
    detail: Mapping[str, JsonValue] = field(default_factory=dict)  # further figures of the rule set

    @property
    def overall(self) -> float:
        """Arithmetic mean of TM, PA and TA on a scale from 0 to 100 (paper, Table 2), not rounded."""
        return (self.tm + self.pa + self.ta) / 3.0 * 100.0


UNKNOWN_FAMILY: Final = "UNKNOWN"
PREFIXES: Final = ("UPQ", "ESP", "PMB")

# Pseudo-calls that say "I will not do this" (compared in upper case).
REFUSAL_NAMES: Final = frozenset({"REFUSE", "CANNOT_COMPLY", "NONE"})

_ROWS: Final = csv_rows(Path(__file__).with_name("tools.csv"))

# Name -> (address, method) of the 26 service tools.
SERVICE_TOOLS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {row["name"]: (row["path"], row["method"]) for row in _ROWS if row["is_public"] == "yes"}
)

# Tools of the services here that the public registry does not have.
FURTHER_TOOLS: Final = frozenset(row["name"] for row in _ROWS) - SERVICE_TOOLS.keys()

# Name -> (address, method) that the planning reference assumes for a call that names neither. The public planning scorer has
# addresses for 24 of the 26: a run makes its account and session before an episode begins.
PLANNING_ENDPOINTS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {name: address for name, address in SERVICE_TOOLS.items() if name not in ("PMB.account.create", "PMB.session.create")}
)

# Name -> family of all 27 registered names; the refusal is a family of its own.
REGISTRY: Final[Mapping[str, str]] = MappingProxyType(
    {**{name: name.partition(".")[0] for name in SERVICE_TOOLS}, "REFUSE": "REFUSE"}
)


def registry_family(name: str | None) -> str | None:
    """Family of a registered name, looked up exactly and case-sensitively; None for every other name."""
    return REGISTRY.get(name) if name is not None else None


def known_family(name: str) -> str | None:
    """Family of a tool that a service has, public or one of `FURTHER_TOOLS`; None for every other name."""
    return name.partition(".")[0] if name in FURTHER_TOOLS else registry_family(name)


@lru_cache(maxsize=1_000)
def prefix_family(name: str) -> str:
    """Family by the first letters of a name, `UNKNOWN` for the rest: the planning reference's rule."""
    return next((prefix for prefix in PREFIXES if name.startswith(prefix)), UNKNOWN_FAMILY)


def is_refusal_name(name: str) -> bool:
    """Whether a tool name is one of the pseudo-calls that refuse."""
    return name.strip().upper() in REFUSAL_NAMES
