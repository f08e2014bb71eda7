"""Actions of an external agent, as recorded in the transcript of a step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol

from msgspec import UNSET, Meta, UnsetType

from ktdeval.harness.own_settings import OwnSettings
from ktdeval.values.strict_json import JsonObject, JsonValue
from ktdeval.values.typed_json import Value

Isolation = Literal["bwrap", "none", "remote"]
"""Isolation of an agent: a sandbox by its name; `none`: it ran as the user who ran the evaluation;
`remote`: it ran elsewhere.
"""


class OfferedTool(Value):
    """Tool of the agent's own, as its request offered it to the model."""

    name: str
    description: str
    parameters: JsonObject


class Act(Value, omit_defaults=True):
    """One act of a step."""

    kind: Literal["ask", "tool", "submit", "refused"]
    #: of a call of the model: the tools that it offered, where they are not those of the call
    #: before
    tools: tuple[OfferedTool, ...] | UnsetType = UNSET
    #: of a call of the model: a JSON Schema that the reply had to follow; absent where it was free
    response_schema: JsonObject | UnsetType = UNSET
    #: of a call of the model: texts of the request, new in the step, with identities withheld
    withheld: int = 0
    #: of a call of the model: settings that the agent's program sent with it; absent without any
    settings: OwnSettings | UnsetType = UNSET
    name: str = ""  #: of a research tool
    arguments: str = ""  #: of a research tool, or what was submitted
    result: str = ""  #: what the research tool, or a submission that was not accepted, gave back
    failure: str = ""  #: kind of failure of a tool, a submission or a refused act
    times: int = 1  #: how often a refused act came in a row


ShownKind = Literal["interpreter", "environment", "packages", "programs", "folder"]
"""Kinds of a program's files: a Python, a virtual environment, packages of npm, a folder of
programs, folders that the user named.
"""


class ShownPart(Value, frozen=True):
    """Files of the machine that a sandbox showed, besides the system's own."""

    kind: ShownKind
    files: Annotated[int, Meta(ge=0)]  #: files and links
    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]  #: of their relative paths and sizes


class ExternalRecord(Value):
    """What an agent outside did in one step."""

    isolation: Isolation  #: walls that were around it
    acts: tuple[Act, ...]  #: in order
    report: JsonValue = None  #: what was seen of the agent, such as how its program ended
    #: what its sandbox showed; absent without a sandbox
    shown: tuple[ShownPart, ...] | UnsetType = UNSET


class KeptFiles(Protocol):
    """Files that a run keeps by name, such as the folder of a program after each step."""

    def read(self, key: str) -> bytes:
        """Return a file. Raises StoreError if the file is missing or can't be read."""

    def create(self, key: str, data: bytes) -> bool:
        """Store a file; return False, and change nothing, if a file with that name exists. Raises
        StoreError.
        """


@dataclass(frozen=True, slots=True)
class RecordedActs:
    """Recorded actions from which a step is replayed."""

    record: ExternalRecord  #: record of the agent's actions
    exchanges: Sequence[Mapping[str, Any]]  #: model calls, as in the transcript


NO_ACTS = RecordedActs(ExternalRecord(isolation="none", acts=()), ())
"""Acts of a step in which no external agent acted."""


def goes_on() -> None:
    """Do nothing: check for a step that no outside event can end."""


@dataclass(frozen=True, slots=True)
class Outside:
    """Settings and records of a step that external agents use."""

    is_plan: bool = False  #: True if the step is only planned: nothing external may be called
    recorded: RecordedActs | None = None  #: actions to replay instead of running the agent
    files: KeptFiles | None = None  #: store for an agent's files; None if nothing is kept
    #: raises if the run must end; called periodically by an agent during long waits
    check: Callable[[], None] = goes_on
    #: absolute local paths that no agent may read: the run's folder, its market, caches
    private: tuple[Path, ...] = ()
    #: the agent's arguments that only apply to this machine and are not recorded
    agent_args: Mapping[str, JsonValue] = field(default_factory=dict)
    model: str = ""  #: the run's model, PROVIDER/NAME; empty outside a run


NOT_A_RUN = Outside()
"""Context of a step that is executed outside of a run: nothing is stored, nothing is private."""
