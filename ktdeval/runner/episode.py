"""One episode from its first open step to its ledger: observe, decide, settle, record; nothing is lost between two steps."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ktdeval.errors import KtdevalError, ModelError
from ktdeval.harness.action import ActionForm
from ktdeval.harness.agent import Agent, Decision, Observation
from ktdeval.harness.desk import DeskParts, StepDesk
from ktdeval.harness.messages import CallParams, Model
from ktdeval.harness.tools import Tool
from ktdeval.jsonio import JsonValue
from ktdeval.market.calendar import window_rows
from ktdeval.market.snapshot import MarketSnapshot
from ktdeval.masking.guard import LeakGuard
from ktdeval.runner.backend import EpisodeOutcome
from ktdeval.runner.events import EpisodeFailed, EpisodeFinished, EpisodeStarted, Event, StepFinished
from ktdeval.runner.records import account_after, step_record
from ktdeval.runner.redaction import redact_secrets
from ktdeval.runner.spec import EpisodeSpec
from ktdeval.runner.store import RunFolder
from ktdeval.runner.task import Scene, Task
from ktdeval.trading.executor import settle
from ktdeval.trading.ledger import StepRecord
from ktdeval.trading.tape import Tape


@dataclass(frozen=True)
class EpisodeContext:
    """What an episode runs in. `stop` is looked at between steps."""

    task: Task
    tools: tuple[Tool, ...]
    snapshot: MarketSnapshot
    tape: Tape
    model: Model
    agent: Agent
    folder: RunFolder
    emit: Callable[[Event], None]
    stop: threading.Event


def run_episode(spec: EpisodeSpec, context: EpisodeContext) -> EpisodeOutcome:
    """Run an episode to its end, from wherever its journal stands.

    This is the boundary at which a defect of a plugin becomes a failed episode: the others go on, what was recorded stays.

    Raises:
        KeyboardInterrupt: `stop` was set; everything finished is on disk.
    """
    try:
        _run_to_end(spec, context)
    except KtdevalError as error:
        problem = redact_secrets(str(error), os.environ)
    except Exception as error:  # noqa: BLE001 - the one place: a stranger's agent, model or task may raise anything
        problem = redact_secrets(f"{_place(error)}: {type(error).__name__}: {error}", os.environ)
    else:
        context.emit(EpisodeFinished(spec, already_done=False))
        return EpisodeOutcome(spec)
    problem = " ".join(problem.split())
    context.emit(EpisodeFailed(spec, problem))
    return EpisodeOutcome(spec, problem)


def _place(error: Exception) -> str:
    """File and line where an unexpected exception was raised."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "unknown place" if trace is None else f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"


def _run_to_end(spec: EpisodeSpec, context: EpisodeContext) -> None:
    start, stop = window_rows(context.snapshot.days, spec.window.first, spec.window.last)
    total = stop - start if spec.limit is None else min(spec.limit, stop - start)
    episode = _Episode(spec, context, start - 1)
    with context.folder.open_journal(spec) as journal:
        episode.recover(journal.recovered)
        context.emit(EpisodeStarted(spec, total, len(journal.recovered)))
        for step in range(len(journal.recovered), total):
            if context.stop.is_set():
                raise KeyboardInterrupt
            began = time.perf_counter()
            record, transcript = episode.run_step(step)
            entry = {"step": record, "transcript": transcript, "memory": episode.memory}
            journal.append({**entry, "wall_s": round(time.perf_counter() - began, 6)})
            context.emit(_step_event(spec, total, record))
    context.folder.complete(spec, context.task.trading.initial_cash_cny * 100)


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


class _Episode:
    """The state that goes from step to step: the account, the last record, the agent's memory."""

    def __init__(self, spec: EpisodeSpec, context: EpisodeContext, base_row: int) -> None:
        self._spec = spec
        self._context = context
        self._base_row = base_row
        self._scene: Scene = context.task.scene(spec, context.snapshot)
        lens = self._scene.lens
        self._parts = DeskParts(
            model=context.model,
            lens=lens,
            guard=LeakGuard(lens, context.snapshot),
            tools=context.tools,
            form=ActionForm(context.task.harness, lens),
            harness=context.task.harness,
            params=CallParams(**spec.call),
            seed=spec.seed,
        )
        self._last: StepRecord | None = None
        self.memory: JsonValue = None
        self._account = account_after(context.snapshot, None, context.task.trading)

    def recover(self, entries: list[JsonValue]) -> None:
        """Take up where the journal stands."""
        if entries:
            self._last, self.memory = entries[-1]["step"], entries[-1]["memory"]
            self._account = account_after(self._context.snapshot, self._last, self._context.task.trading)

    def run_step(self, step: int) -> tuple[StepRecord, JsonValue]:
        """Decide and settle one step; returns its record and its transcript."""
        context, row = self._context, self._base_row + step
        view = context.snapshot.as_of(row)
        observation = self._scene.observe(step, view, self._account, self._last)
        desk = StepDesk(self._parts, step, self._scene.tool_context(step, view, self._account))
        decision = self._decide(observation, desk)
        day = context.tape.day(row + 1)
        settlement = settle(self._account, day, decision.action, context.task.trading, row)
        record = step_record(context.snapshot, step, decision, desk.counts.to_json(), day, settlement)
        self._account, self._last, self.memory = settlement.after, record, decision.memory
        return record, {"step": step, "exchanges": desk.exchanges, "submission": desk.accepted_text(decision)}

    def _decide(self, observation: Observation, desk: StepDesk) -> Decision:
        """The agent's decision, or an engine's hold where the model call failed."""
        try:
            return self._context.agent.decide(observation, desk, self.memory)
        except ModelError:  # counted by the desk under its kind
            return Decision((), "error", memory=self.memory)
