"""Contents of a log, independent of the framework: decisions, their texts and fills."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ktdeval.values import JsonValue

Role = Literal["prompt", "tool", "reply"]
"""Author of a text: the program that calls the model, a tool, or the model."""


@dataclass(frozen=True, kw_only=True)
class LogText:
    """One text of a log."""

    role: Role
    text: str
    place: str  #: index of the message, or id of the span with the path of the field
    line: int | None = None  #: line of the file; None if the file is one JSON value
    fields: Mapping[str, JsonValue] = field(default_factory=dict)  #: the message's own metadata


@dataclass(frozen=True, kw_only=True)
class LogFill:
    """One fill recorded in a log."""

    price: float
    digits: int  #: number of decimals of the price as written
    code: str = ""  #: code; empty if the log states none
    day: str = ""  #: ISO day of the fill; empty if the log states no day
    place: str = ""
    line: int | None = None


@dataclass(frozen=True, kw_only=True)
class LoggedDecision:
    """Texts that led to one decision, or to several in one conversation, in order."""

    name: str  #: id of the conversation, trace or sample
    file: str = ""  #: path in the folder of logs; empty if the log is one file
    texts: tuple[LogText, ...]
    fields: Mapping[str, JsonValue] = field(default_factory=dict)  #: metadata by dotted name
    models: tuple[str, ...] = ()  #: names of the models that were called
    fills: tuple[LogFill, ...] = ()
    line: int | None = None

    @property
    def title(self) -> str:
        """Name of the decision, unique within a folder."""
        return f"{self.file}: {self.name}" if self.file else self.name


@dataclass(frozen=True, kw_only=True)
class AgentLog:
    """A log after reading."""

    kind: str  #: name of the reader
    source: str  #: name of the file or folder, for messages
    decisions: tuple[LoggedDecision, ...]
    notes: tuple[str, ...] = ()  #: what was omitted, one sentence each
    files: int = 1  #: logs that were read
    unread: tuple[str, ...] = ()  #: why each other log of a folder can't be read, with its path
