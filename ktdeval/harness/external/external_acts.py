"""Actions of an external agent, as recorded in the transcript of a step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol

from msgspec import UNSET, Meta, UnsetType

from ktdeval.harness.external.own_settings import OwnSettings
from ktdeval.values.documents.strict_json import JsonObject, JsonValue
from ktdeval.values.documents.typed_json import Value

Isolation = Literal["bwrap", "none", "remote"]
"""Isolation of an agent: a sandbox by its name; `none`: it ran as the user who ran the evaluation;
`remote`: it ran elsewhere.
"""


class OfferedTool(Value):
    """One of the agent's own tools, in the form in which its request offered it to the model."""

    name: str
    description: str
    parameters: JsonObject


class Act(Value, omit_defaults=True):
    """One action of a step."""

    kind: Literal["ask", "tool", "submit", "refused"]
    #: for a model call: the tools that it offered, if they differ from those of the call
    tools: tuple[OfferedTool, ...] | UnsetType = UNSET
    #: for a model call: a JSON Schema that the reply had to follow; absent without one
    response_schema: JsonObject | UnsetType = UNSET
    #: for a model call: texts of the request that are new in the step, with identities withheld
    withheld: int = 0
    #: for a model call: settings that the agent's program sent with it; absent if none
    settings: OwnSettings | UnsetType = UNSET
    name: str = ""  #: name of a research tool
    arguments: str = ""  #: arguments of a research tool, or the submission
    result: str = ""  #: result of a research tool, or of a submission that was not accepted
    failure: str = ""  #: kind of failure of a tool, a submission or a refused action
    times: int = 1  #: number of consecutive times that an action was refused


BROUGHT = "brought"
"""Argument of an agent with the hash of all that its program consists of and is shown besides the
system. Only a registration records it.
"""

ShownKind = Literal["interpreter", "environment", "packages", "programs", "folder"]
"""Kinds of a program's files: a Python, a virtual environment, packages of npm, a folder of
programs, folders that the user named.
"""


class ShownPart(Value, frozen=True):
    """Files of the machine that a sandbox exposed, other than the system's own."""

    kind: ShownKind
    files: Annotated[int, Meta(ge=0)]  #: number of files and links
    #: SHA-256 of their relative paths and sizes
    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


class ExternalRecord(Value):
    """Actions of an external agent in one step."""

    isolation: Isolation  #: sandbox around the agent
    acts: tuple[Act, ...]  #: actions in order
    report: JsonValue = None  #: report about the agent, such as how its program ended
    #: what its sandbox exposed; absent without a sandbox
    shown: tuple[ShownPart, ...] | UnsetType = UNSET


class KeptFiles(Protocol):
    """Files that a run stores by name, such as a program's folder after each step."""

    def read(self, key: str) -> bytes:
        """Return a file. Raises StoreError if the file is missing or can't be read."""

    def create(self, key: str, data: bytes) -> bool:
        """Store a file. If a file with the same name exists, return False and change nothing.
        Raises StoreError.
        """


@dataclass(frozen=True, slots=True)
class RecordedActs:
    """Recorded actions from which a step is replayed."""

    record: ExternalRecord  #: record of the agent's actions
    exchanges: Sequence[Mapping[str, Any]]  #: model calls, as in the transcript


NO_ACTS = RecordedActs(ExternalRecord(isolation="none", acts=()), ())
"""Acts of a step in which no external agent acted."""


def goes_on() -> None:
    """Do nothing, for a step that no outside event can end."""


@dataclass(frozen=True, slots=True)
class Outside:
    """A step's settings and records for external agents."""

    #: True if the step is only planned, so that nothing external may be called
    is_plan: bool = False
    recorded: RecordedActs | None = None  #: actions to replay instead of running the agent
    files: KeptFiles | None = None  #: store for an agent's files; None if nothing is kept
    #: raises an error if the run must end; agents call it periodically during long waits
    check: Callable[[], None] = goes_on
    #: absolute local paths that no agent may read: the run's folder, the market, caches
    private: tuple[Path, ...] = ()
    #: the agent's arguments that apply only to this machine and are not recorded
    agent_args: Mapping[str, JsonValue] = field(default_factory=dict)
    model: str = ""  #: the run's model, PROVIDER/NAME; empty outside a run


NOT_A_RUN = Outside()
"""Context of a step that is executed outside of a run: nothing is stored, nothing is private."""
