"""Marks of a run folder: of a complete episode, and of the call log that a run was begun with."""

from __future__ import annotations

import math
import platform
from collections.abc import Iterable

import ktdeval
from ktdeval.calls.call_counts import EpisodeCalls
from ktdeval.cards.fields.episode_parts import Maker, StepMaker
from ktdeval.registry.code import code_hash
from ktdeval.registry.plugin_registry import Plugins
from ktdeval.runner.records.transcript_counts import Said
from ktdeval.values.strict_json import JsonObject
from ktdeval.values.typed_json import Value


class LogEntry(Value):
    """Which record of calls a run was begun with: its replies and costs stand there, and nowhere
    else.
    """

    id: str  #: as the record says it; drawn when it was begun
    begun_at: str  #: when that was, ISO 8601 in UTC


class EpisodeMark(Value):
    """Mark of a complete episode (`episode.json`)."""

    spec: JsonObject  #: its spec
    steps: int  #: how many there are
    wall_s: float  #: seconds that it took, resumed parts added up
    sha256: dict[str, str]  #: hash of each of its two files by name
    said: Said  #: what its transcript holds
    #: calls that were made for it; None of a model of this machine, which nobody calls
    calls: EpisodeCalls | None = None
    #: what made its steps; empty in records without it
    made_by: tuple[StepMaker, ...] = ()


def wall_time(marks: Iterable[EpisodeMark]) -> float:
    """Return the total seconds of complete episodes, in the precision of cards."""
    return round(math.fsum(mark.wall_s for mark in marks), 3)


def own_maker(plugins: Plugins) -> Maker:
    """Return the identity of the code that makes the steps of this process."""
    return Maker(
        ktdeval=ktdeval.__version__, code=code_hash(plugins), python=platform.python_version()
    )
