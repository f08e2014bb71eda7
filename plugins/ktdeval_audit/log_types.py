"""Contents of a log, independent of the framework: decisions, with their texts and fills."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ktdeval.values import JsonValue

Role = Literal["prompt", "tool", "reply"]
"""Author of a text: the program that calls the model, a tool, or the model."""


@dataclass(frozen=True, kw_only=True)
class LogText:
    """A text in a log."""

    role: Role
    text: str
    place: str  #: index of the message, or id of the span and path of the field
    line: int | None = None  #: line in the file; None if the file is one JSON value
    #: metadata of the message that contains the text
    fields: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class LogFill:
    """A fill recorded in a log."""

    price: float
    digits: int  #: number of decimal places of the price, as written
    code: str = ""  #: asset code; empty if the log does not state it
    day: str = ""  #: day of the fill, ISO; empty if the log does not state it
    place: str = ""
    line: int | None = None


@dataclass(frozen=True, kw_only=True)
class LoggedDecision:
    """The texts that led to a decision, or to several decisions in one conversation, in order."""

    name: str  #: id of the conversation, trace or sample
    file: str = ""  #: path of the log within the folder; empty if the log is a single file
    texts: tuple[LogText, ...]
    fields: Mapping[str, JsonValue] = field(default_factory=dict)  #: metadata, by dotted name
    models: tuple[str, ...] = ()  #: names of the models that were called
    fills: tuple[LogFill, ...] = ()
    line: int | None = None

    @property
    def title(self) -> str:
        """Name of the decision, unique within a folder."""
        return f"{self.file}: {self.name}" if self.file else self.name


@dataclass(frozen=True, kw_only=True)
class AgentLog:
    """A log that has been read."""

    kind: str  #: name of the reader
    source: str  #: name of the file or folder, for use in messages
    decisions: tuple[LoggedDecision, ...]
    notes: tuple[str, ...] = ()  #: what was omitted, one sentence for each
    files: int = 1  #: number of logs that were read
    unread: tuple[str, ...] = ()  #: the logs in a folder that can't be read, each with the reason
