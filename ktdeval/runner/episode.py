"""A trading episode step by step: observe, decide, settle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ktdeval.contracts.events import StepFinished
from ktdeval.contracts.spec import EpisodeSpec
from ktdeval.contracts.task import Scene, Task
from ktdeval.harness.action import ActionForm
from ktdeval.harness.agent import Agent
from ktdeval.harness.messages import CallParams, Model
from ktdeval.harness.session import GuardedSession, SessionParts
from ktdeval.harness.tools import Tool
from ktdeval.jsonio import JsonValue, dumps_canonical, loads_strict
from ktdeval.market.calendar import window_rows
from ktdeval.market.snapshot import MarketSnapshot
from ktdeval.masking.guard import LeakGuard
from ktdeval.runner.journal import Entry, JournalEntry
from ktdeval.runner.ledger_file import encode_ledger
from ktdeval.runner.records import Bookkeeper
from ktdeval.runner.store import LEDGER
from ktdeval.trading.ledger import Ledger, StepRecord
from ktdeval.trading.market_tape import MarketTape


@dataclass(frozen=True)
class EpisodeParts:
    """Everything that an episode's outcome depends on besides its spec. `tape` is the snapshot under the task's trading rules."""

    task: Task
    tools: tuple[Tool, ...]
    snapshot: MarketSnapshot
    tape: MarketTape
    model: Model
    agent: Agent

    def bookkeeper(self, spec: EpisodeSpec) -> Bookkeeper:
        """Return the books of an episode at its start."""
        base_row = window_rows(self.snapshot.days, spec.window.first, spec.window.last)[0] - 1
        return Bookkeeper(self.snapshot, self.tape, self.task.trading, base_row)


class TradingEpisode:
    """A trading episode; from step to step go its books and the agent's memory. Members as of `Episode`."""

    entry_type: type[Entry] = JournalEntry[StepRecord]

    def __init__(self, spec: EpisodeSpec, parts: EpisodeParts) -> None:
        start, stop = window_rows(parts.snapshot.days, spec.window.first, spec.window.last)
        self.total_steps = stop - start if spec.limit is None else min(spec.limit, stop - start)
        self._spec = spec
        self._parts = parts
        self._base_row = start - 1
        self._books = parts.bookkeeper(spec)
        self._memory: JsonValue = None
        self._scene: Scene = parts.task.scene(spec, parts.snapshot)
        lens = self._scene.lens
        self._session_parts = SessionParts(
            model=parts.model,
            lens=lens,
            guard=LeakGuard(lens, parts.snapshot),
            tools=parts.tools,
            form=ActionForm(parts.task.harness, lens),
            harness=parts.task.harness,
            params=CallParams(**spec.call),
            seed=spec.call_seed,
        )

    def is_own(self, place: int, entry: JournalEntry[StepRecord]) -> bool:
        """Whether an entry can be that of step `place` of this episode."""
        record, days, row = entry.step, self._parts.snapshot.days, self._base_row + place
        known = all(held.code in self._parts.snapshot.asset_index for held in record.positions)
        return known and (record.step, record.decided_on, record.filled_on) == (place, str(days[row]), str(days[row + 1]))

    def resume(self, last: JournalEntry[StepRecord]) -> None:
        """Take up where the journal ends."""
        self._memory = last.memory
        self._books.resume(last.step)

    def run_step(self, step: int) -> JournalEntry[StepRecord]:
        """Decide and settle one step."""
        books, view = self._books, self._parts.snapshot.as_of(self._base_row + step)
        observation = self._scene.observe(step, view, books.account, books.last)
        session = GuardedSession(self._session_parts, step, self._scene.tool_context(step, view, books.account))
        outcome = session.decide(self._parts.agent, observation, self._memory)
        record = books.book(step, outcome.decision, outcome.counts)
        self._memory = loads_strict(dumps_canonical(outcome.decision.memory))  # so that a resumed agent is given the very same
        return JournalEntry(step=record, transcript=outcome.transcript, memory=self._memory)

    def event(self, record: StepRecord) -> StepFinished:
        """Return what observers are told of a recorded step."""
        return StepFinished(
            self._spec,
            step=record.step,
            total_steps=self.total_steps,
            filled_on=record.filled_on,
            nav_fen=record.nav_minor,
            orders=len(record.orders),
            rejections=sum(order.status == "rejected" for order in record.orders),
            tokens=record.input_tokens + record.output_tokens,
            provenance=record.provenance,
        )

    def encode(self, records: Sequence[StepRecord]) -> tuple[str, bytes]:
        """Return the ledger of all steps, as its file."""
        initial_cash = self._parts.task.trading.initial_cash_cny * 100
        return LEDGER, encode_ledger(Ledger(self._spec.to_json(), initial_cash, records))
