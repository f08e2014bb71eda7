"""A trading episode step by step: observe, decide, settle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ktdeval.errors import ModelError
from ktdeval.harness.action import ActionForm
from ktdeval.harness.agent import Agent, Decision, Observation
from ktdeval.harness.desk import DeskParts, StepDesk
from ktdeval.harness.messages import CallParams, Model
from ktdeval.harness.tools import Tool
from ktdeval.jsonio import JsonValue, dumps_canonical, loads_strict
from ktdeval.market.calendar import window_rows
from ktdeval.market.snapshot import MarketSnapshot
from ktdeval.masking.guard import LeakGuard
from ktdeval.runner.events import StepFinished
from ktdeval.runner.ledger_file import encode_ledger, is_step_record
from ktdeval.runner.records import account_after, step_record
from ktdeval.runner.spec import EpisodeSpec
from ktdeval.runner.store import LEDGER
from ktdeval.runner.task import Scene, Task
from ktdeval.trading.executor import settle
from ktdeval.trading.ledger import Ledger, StepRecord
from ktdeval.trading.tape import Tape


@dataclass(frozen=True)
class EpisodeParts:
    """Everything that an episode's outcome depends on besides its spec. `tape` is the snapshot under the task's trading rules."""

    task: Task
    tools: tuple[Tool, ...]
    snapshot: MarketSnapshot
    tape: Tape
    model: Model
    agent: Agent


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
        self._spec = spec
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

    def is_own(self, place: int, record: JsonValue) -> bool:
        """Whether a record can be that of step `place` of this episode."""
        if not is_step_record(record):
            return False
        days, row = self._parts.snapshot.days, self._base_row + place
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

    def event(self, record: StepRecord) -> StepFinished:
        """What observers are told of a recorded step."""
        return StepFinished(
            self._spec,
            step=record["step"],
            total_steps=self.total_steps,
            filled_on=record["filled_on"],
            nav_fen=record["nav_fen"],
            orders=len(record["orders"]),
            rejections=sum(order["status"] == "rejected" for order in record["orders"]),
            tokens=record["input_tokens"] + record["output_tokens"],
            provenance=record["provenance"],
        )

    def encode(self, records: Sequence[StepRecord]) -> tuple[str, bytes]:
        """The ledger of all steps, as its file."""
        initial_cash_fen = self._parts.task.trading.initial_cash_cny * 100
        return LEDGER, encode_ledger(Ledger(self._spec.to_json(), initial_cash_fen, records))

    def _decide(self, observation: Observation, desk: StepDesk) -> Decision:
        """The agent's decision, or an engine's hold where the model call failed."""
        try:
            return self._parts.agent.decide(observation, desk, self.memory)
        except ModelError:  # counted by the desk under its kind
            return Decision((), "error", memory=self.memory)
