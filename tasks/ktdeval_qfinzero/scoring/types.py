"""Plain values that both rule sets share: expected calls, tasks and scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from ktdeval.jsonio import JsonValue

Suite = Literal["calling", "planning"]

REFUSE: Final = "REFUSE"
METRICS: Final = ("tm", "pa", "ta")


@dataclass(frozen=True)
class GoldCall:
    """One expected call.
    `tool`: dotted tool name, or `REFUSE`; `endpoint`: path of the service, with `{name}` for what only a run can tell; None for a
    refusal; `method`: `GET` or `POST`; None for a refusal; `required`: parameters that PA checks, as JSON; `optional`: parameters
    that no metric reads; `times`: time fields with their expected values, and the entries `format` and `tolerance`; `step_id`: name
    of a planning step; None in the calling suite; `notes`: the author's remark on this step.
    """

    tool: str
    endpoint: str | None = None
    method: str | None = None
    required: Mapping[str, JsonValue] = field(default_factory=dict)
    optional: Mapping[str, JsonValue] = field(default_factory=dict)
    times: Mapping[str, JsonValue] = field(default_factory=dict)
    step_id: str | None = None
    notes: str = ""


@dataclass(frozen=True)
class GoldTask:
    """One instruction with the calls that carry it out, in order.
    `id`: unique within a file; `suite`: `calling` or `planning`; `category`: group that summaries are given for; `difficulty`:
    `easy, medium` or `hard`; `instruction`: what the agent is told, with `{session_id}` and `{account_id}` where a run fills them
    in; `calls`: expected calls, at least one in a loaded task; `notes`: the author's remark on the task; `truth`: facts of the
    episode that no metric reads.
    """

    id: str
    suite: Suite
    category: str
    difficulty: str
    instruction: str
    calls: tuple[GoldCall, ...]
    notes: str = ""
    truth: Mapping[str, JsonValue] = field(default_factory=dict)

    @property
    def refuse(self) -> bool:
        """Whether the right answer is to make no call."""
        return any(call.tool == REFUSE for call in self.calls)


@dataclass(frozen=True)
class Scores:
    """Scores of one answer on one task.
    `tm`: tool match, 0 to 1; `pa`: parameter accuracy, 0 to 1; `ta`: time alignment, 0 to 1; `failure_modes`: sorted names of what
    went wrong, each once; `detail`: further figures of the rule set that made the scores.
    """

    tm: float
    pa: float
    ta: float
    failure_modes: tuple[str, ...] = ()
    detail: Mapping[str, JsonValue] = field(default_factory=dict)

    @property
    def overall(self) -> float:
        """Arithmetic mean of TM, PA and TA on a scale from 0 to 100 (paper, Table 2), not rounded."""
        return (self.tm + self.pa + self.ta) / 3.0 * 100.0
