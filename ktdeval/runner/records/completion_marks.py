"""Marks in a run folder: one for each complete episode, and one that identifies the run's original
call log.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Iterable

import ktdeval
from ktdeval.calls.records.call_counts import EpisodeCalls
from ktdeval.cards.fields.episode_parts import Maker, StepMaker
from ktdeval.registry.code import code_hash
from ktdeval.registry.plugin_registry import Plugins
from ktdeval.runner.records.transcript_counts import Said
from ktdeval.values.documents.strict_json import JsonObject
from ktdeval.values.documents.typed_json import Value


class LogEntry(Value):
    """Call log with which a run was begun; replies and costs are recorded only there."""

    id: str  #: id from the log, drawn when it was created
    begun_at: str  #: time of its creation, ISO 8601 in UTC


class EpisodeMark(Value):
    """Mark of a complete episode (`episode.json`)."""

    spec: JsonObject  #: spec of the episode
    steps: int  #: number of steps
    wall_s: float  #: duration in seconds, summed over all sessions
    sha256: dict[str, str]  #: hash of each of its two files, by name
    said: Said  #: counts of its transcript
    #: calls made for it; None for a local model, whose calls are not recorded
    calls: EpisodeCalls | None = None
    #: code that ran its steps; empty in records without this field
    made_by: tuple[StepMaker, ...] = ()


def wall_time(marks: Iterable[EpisodeMark]) -> float:
    """Return the total duration of complete episodes in seconds, rounded as on cards."""
    return round(math.fsum(mark.wall_s for mark in marks), 3)


def own_maker(plugins: Plugins) -> Maker:
    """Return the identity of the code that runs the steps in this process."""
    return Maker(
        ktdeval=ktdeval.__version__, code=code_hash(plugins), python=platform.python_version()
    )
