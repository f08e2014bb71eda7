"""One episode from its first open step to its ledger: observe, decide, settle, record; nothing is lost between two steps."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ktdeval.calls.stop import StopSignal
from ktdeval.errors import KtdevalError, ModelError, RunStop
from ktdeval.harness.action import ActionForm
from ktdeval.harness.agent import Agent, Decision, Observation
from ktdeval.harness.desk import DeskParts, StepDesk
from ktdeval.harness.messages import CallParams, Model
from ktdeval.harness.tools import Tool
from ktdeval.jsonio import JsonValue, dumps_canonical, loads_strict
from ktdeval.market.calendar import window_rows
from ktdeval.market.snapshot import MarketSnapshot
from ktdeval.masking.guard import LeakGuard
from ktdeval.runner.backend import EpisodeOutcome
from ktdeval.runner.events import EpisodeFailed, EpisodeFinished, EpisodeStarted, Event, StepFinished
from ktdeval.runner.ledger_file import is_step_record
from ktdeval.runner.records import account_after, step_record
from ktdeval.runner.spec import EpisodeSpec
from ktdeval.runner.store import RunFolder
from ktdeval.runner.task import Scene, Task
from ktdeval.trading.executor import settle
from ktdeval.trading.ledger import StepRecord
from ktdeval.trading.tape import Tape

_ENTRY_FIELDS = {"step", "transcript", "memory", "wall_s"}


@dataclass(frozen=True)
class EpisodeParts:
    """Everything that an episode's outcome depends on besides its spec. `tape` is the snapshot under the task's trading rules."""

    task: Task
    tools: tuple[Tool, ...]
    snapshot: MarketSnapshot
    tape: Tape
    model: Model
    agent: Agent


@dataclass(frozen=True)
class EpisodeContext:
    """What an episode runs in.

    Attributes:
        parts: what it runs with.
        folder: where its records go.
        emit: told of what happens.
        stop: looked at between steps; set when an episode finds that none can go on.
        redact: takes secrets out of a message.
    """

    parts: EpisodeParts
    folder: RunFolder
    emit: Callable[[Event], None]
    stop: StopSignal
    redact: Callable[[str], str]


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


def _place(error: Exception) -> str:
    """File and line where an unexpected exception was raised."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "unknown place" if trace is None else f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"


def _run_to_end(spec: EpisodeSpec, context: EpisodeContext) -> None:
    episode = Episode(spec, context.parts)
    total = episode.total_steps
    with context.folder.open_journal(spec, episode.is_own) as journal:
        episode.recover(journal.recovered)
        recorded = tuple(_step_event(spec, total, entry["step"]) for entry in journal.recovered)
        context.emit(EpisodeStarted(spec, total, len(recorded), recorded))
        for step in range(len(journal.recovered), total):
            context.stop.check()
            began = time.perf_counter()
            record, transcript = episode.run_step(step)
            entry = {"step": record, "transcript": transcript, "memory": episode.memory}
            journal.append({**entry, "wall_s": round(time.perf_counter() - began, 6)})
            context.emit(_step_event(spec, total, record))
    context.folder.complete(spec, context.parts.task.trading.initial_cash_cny * 100)


def _step_event(spec: EpisodeSpec, total: int, record: StepRecord) -> StepFinished:
    return StepFinished(
        spec,
        step=record["step"],
        total_steps=total,
        filled_on=record["filled_on"],
        nav_fen=record["nav_fen"],
        orders=len(record["orders"]),
        rejections=sum(order["status"] == "rejected" for order in record["orders"]),
        tokens=record["input_tokens"] + record["output_tokens"],
        provenance=record["provenance"],
    )


class Episode:
    """An episode step by step, and the state that goes from step to step: the account, the last record, the agent's memory.

    Attributes:
        total_steps: trading days of the window, or the spec's limit where that is less.
        memory: what the agent wants to be given at the next step.
    """

    def __init__(self, spec: EpisodeSpec, parts: EpisodeParts) -> None:
        start, stop = window_rows(parts.snapshot.days, spec.window.first, spec.window.last)
        self.total_steps = stop - start if spec.limit is None else min(spec.limit, stop - start)
        self.memory: JsonValue = None
        self._parts = parts
        self._base_row = start - 1
        self._scene: Scene = parts.task.scene(spec, parts.snapshot)
        lens = self._scene.lens
        self._desk_parts = DeskParts(
            model=parts.model,
            lens=lens,
            guard=LeakGuard(lens, parts.snapshot),
            tools=parts.tools,
            form=ActionForm(parts.task.harness, lens),
            harness=parts.task.harness,
            params=CallParams(**spec.call),
            seed=spec.call_seed,
        )
        self._last: StepRecord | None = None
        self._account = account_after(parts.snapshot, None, parts.task.trading)

    def is_own(self, place: int, entry: JsonValue) -> bool:
        """Whether a journal entry can be that of step `place` of this episode."""
        if not isinstance(entry, dict) or entry.keys() != _ENTRY_FIELDS or not is_step_record(entry["step"]):
            return False
        record, days, row = entry["step"], self._parts.snapshot.days, self._base_row + place
        if place >= self.total_steps or not isinstance(entry["wall_s"], float | int):
            return False
        known = all(position["code"] in self._parts.snapshot.asset_index for position in record["positions"])
        return known and (place, str(days[row]), str(days[row + 1])) == (record["step"], record["decided_on"], record["filled_on"])

    def recover(self, entries: list[JsonValue]) -> None:
        """Take up where the journal stands."""
        if entries:
            self._last, self.memory = entries[-1]["step"], entries[-1]["memory"]
            self._account = account_after(self._parts.snapshot, self._last, self._parts.task.trading)

    def run_step(self, step: int) -> tuple[StepRecord, JsonValue]:
        """Decide and settle one step; returns its record and its transcript."""
        parts, row = self._parts, self._base_row + step
        view = parts.snapshot.as_of(row)
        observation = self._scene.observe(step, view, self._account, self._last)
        desk = StepDesk(self._desk_parts, step, self._scene.tool_context(step, view, self._account))
        decision = self._decide(observation, desk)
        day = parts.tape.day(row + 1)
        settlement = settle(self._account, day, decision.action, parts.task.trading, row)
        record = step_record(parts.snapshot, step, decision, desk.counts.to_json(), day, settlement)
        self._account, self._last = settlement.after, record
        self.memory = loads_strict(dumps_canonical(decision.memory))  # so that a resumed agent is given the very same
        return record, {"step": step, "exchanges": desk.exchanges, "submission": desk.accepted_text(decision)}

    def _decide(self, observation: Observation, desk: StepDesk) -> Decision:
        """The agent's decision, or an engine's hold where the model call failed."""
        try:
            return self._parts.agent.decide(observation, desk, self.memory)
        except ModelError:  # counted by the desk under its kind
            return Decision((), "error", memory=self.memory)
