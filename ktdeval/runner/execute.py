"""Any episode from its first open step to its records: whatever is decided at a step, nothing is lost between two of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ktdeval.calls.stop import StopSignal
from ktdeval.errors import KtdevalError, ProviderError, RunStop
from ktdeval.jsonio import JsonValue
from ktdeval.runner.backend import EpisodeOutcome
from ktdeval.runner.events import EpisodeFailed, EpisodeFinished, EpisodeStarted, Event, SampleFinished, StepFinished
from ktdeval.runner.spec import EpisodeSpec
from ktdeval.runner.store import RunFolder

_ENTRY_FIELDS = {"step", "transcript", "memory", "wall_s"}


class Unit(Protocol):
    """An episode step by step: a trading episode, or a sitting of a scoring task.

    Attributes:
        total_steps: how many steps it has.
        memory: what the agent wants to be given at the next step.
    """

    total_steps: int
    memory: JsonValue

    def is_own(self, place: int, record: JsonValue) -> bool:
        """Whether a record can be that of step `place`."""
        ...

    def recover(self, entries: list[JsonValue]) -> None:
        """Take up where the journal stands."""
        ...

    def run_step(self, step: int) -> tuple[JsonValue, JsonValue]:
        """Decide one step; returns its record and its transcript."""
        ...

    def event(self, record: JsonValue) -> StepFinished | SampleFinished:
        """What observers are told of a recorded step."""
        ...

    def encode(self, records: Sequence[JsonValue]) -> tuple[str, bytes]:
        """Name and bytes of the file that all records together become."""
        ...


@dataclass(frozen=True)
class EpisodeContext:
    """What an episode runs in.

    Attributes:
        open: opens it; its first steps may be recorded already.
        folder: where its records go.
        emit: told of what happens.
        stop: looked at between steps; set when an episode finds that none can go on.
        redact: takes secrets out of a message.
        max_errors: steps in a row that may end in a failed call before the run stops; None sets no limit.
    """

    open: Callable[[], Unit]
    folder: RunFolder
    emit: Callable[[Event], None]
    stop: StopSignal
    redact: Callable[[str], str]
    max_errors: int | None = None


def run_episode(spec: EpisodeSpec, context: EpisodeContext) -> EpisodeOutcome:
    """Run an episode to its end, from wherever its journal stands.

    This is the boundary at which a defect of a plugin becomes a failed episode: the others go on, what was recorded stays.

    Raises:
        KeyboardInterrupt: the user interrupted the run; everything finished is on disk.
    """
    try:
        _run_to_end(spec, context)
    except RunStop as error:
        context.stop.stop(error)
        problem = str(error)
    except KtdevalError as error:
        problem = str(error)
    except Exception as error:  # noqa: BLE001 - the one place: a stranger's agent, model or task may raise anything
        problem = f"{_place(error)}: {type(error).__name__}: {error}"
    else:
        context.emit(EpisodeFinished(spec, already_done=False))
        return EpisodeOutcome(spec)
    problem = " ".join(context.redact(problem).split())
    context.emit(EpisodeFailed(spec, problem))
    return EpisodeOutcome(spec, problem)


def _hopeless(errors: int, failures: Mapping[str, int]) -> str:
    """Why a run stops whose steps all end in a failed call, though others of their calls may succeed."""
    steps = f"{errors} steps in a row" if errors > 1 else "a step"
    kinds = ", ".join(sorted(failures))
    return f"{steps} ended in a failed call ({kinds}); mend it, then run the same command again to resume (--max-failures)"


def _place(error: Exception) -> str:
    """File and line where an unexpected exception was raised."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "unknown place" if trace is None else f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"


def _run_to_end(spec: EpisodeSpec, context: EpisodeContext) -> None:
    unit = context.open()

    def is_own(place: int, entry: JsonValue) -> bool:
        whole = isinstance(entry, dict) and entry.keys() == _ENTRY_FIELDS and isinstance(entry["wall_s"], float | int)
        return whole and place < unit.total_steps and unit.is_own(place, entry["step"])

    with context.folder.open_journal(spec, is_own) as journal:
        unit.recover(journal.recovered)
        recorded = tuple(unit.event(entry["step"]) for entry in journal.recovered)
        context.emit(EpisodeStarted(spec, unit.total_steps, len(recorded), recorded))
        errors = 0
        for step in range(len(journal.recovered), unit.total_steps):
            context.stop.check()
            began = time.perf_counter()
            record, transcript = unit.run_step(step)
            errors = errors + 1 if record["provenance"] == "error" else 0
            if errors == context.max_errors:
                raise ProviderError(_hopeless(errors, record["failures"]))
            entry = {"step": record, "transcript": transcript, "memory": unit.memory}
            journal.append({**entry, "wall_s": round(time.perf_counter() - began, 6)})
            context.emit(unit.event(record))
    context.folder.complete(spec, unit.encode)
