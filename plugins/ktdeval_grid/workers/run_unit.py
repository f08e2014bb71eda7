"""Run a unit of a grid: open its part, continue where other workers stopped, and record how it
ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime

from ktdeval.errors import FencedError, KtdevalError
from ktdeval.runner import RunPart
from ktdeval.stores import encode_value, find_value
from ktdeval_grid.coordination.claims import Claim
from ktdeval_grid.planning.plan import PlannedSystem, systems
from ktdeval_grid.state.layout import GridPlace
from ktdeval_grid.state.records import (
    GridRecord,
    GridSystem,
    UnitDone,
    UnitFailed,
    WorkerPaid,
    failed_key,
    needed_by,
    paid_key,
)
from ktdeval_grid.state.unit_order import UnitTurn
from ktdeval_grid.workers.grid_observer import GridView
from ktdeval_grid.workers.unit_takeover import continue_canary, continue_unit
from ktdeval_grid.workers.worker_run_folders import OpenRunFolders

_DONE = b"{}\n"  #: record of a finished job


@dataclass(frozen=True)
class _EndedUnit:
    """Why a unit ended before it was done: a failure, or a budget that stopped it."""

    error: str  #: one line
    needed: dict[str, float] | None = None  #: as in `UnitFailed`


# not frozen: it keeps what was last published
@dataclass
class UnitRunner:
    """Runs units of a grid in this process, on any thread."""

    record: GridRecord
    place: GridPlace
    parts: OpenRunFolders
    view: GridView
    #: systems for which this worker runs no more units in this launch, with the reason
    stopped: dict[str, KtdevalError] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._planned: Mapping[str, PlannedSystem] = {
            system.slug: system for system in systems(self.record.plan)
        }
        self._recorded = {system.slug: system for system in self.record.systems}
        self._paid: WorkerPaid | None = None  # costs as last published

    def has_questions(self, system: GridSystem) -> bool:
        """Return whether a system's model is asked the fixed questions at the start."""
        asks = self._planned[system.slug].config.canary > 0
        return asks and system.tool_protocol is not None

    def part(self, slug: str) -> RunPart:
        """Return the open part of a system. Raises KtdevalError."""
        return self.parts.part(self._planned[slug], self._recorded[slug], self.record)

    def run(self, turn: UnitTurn, claim: Claim, requeued: int) -> None:
        """Run a claimed unit to completion, and record it as done or failed.

        After an interrupt, the next worker continues the unit. If the unit was taken over, the
        worker that holds it continues. `requeued`: how often the unit was requeued. The caller has
        joined the system's rounds for the unit.
        """
        try:
            ended = self._run_or_continue(turn, claim)
        except (KeyboardInterrupt, FencedError):
            claim.release()
            return
        except KtdevalError as problem:  # the part can't be opened, or the store fails
            self.stopped.setdefault(turn.system, problem)
            ended = _EndedUnit(problem.line, needed_by(problem))
        finally:
            self.parts.rounds(turn.system).leave()

        if ended is not None:
            self._record_failure(turn, claim, requeued, ended)

    def _run_or_continue(self, turn: UnitTurn, claim: Claim) -> _EndedUnit | None:
        """Run a unit, unless a worker has already finished it. Return why it failed, or None."""
        part = self.part(turn.system)
        unit = turn.unit.id
        holder = self.parts.worker
        if claim.generation > 1:
            holder = continue_unit(self.place, self.parts.worker, turn.system, unit, part)

        if holder == self.parts.worker:
            outcome = part.run(part.specs[unit], claim.check)
            if part.stop.reason is not None:
                self.stopped.setdefault(turn.system, part.stop.reason)

            # raises an error if another worker now holds the unit, which is not a failure
            claim.check()

            if outcome.error is not None:
                needed = None
                if outcome.is_stopped:
                    # The cause may be a problem with another unit, in which case no limit is known.
                    needed = needed_by(part.stop.reason) or {}

                return _EndedUnit(outcome.error, needed)

        self._record_done(turn, claim, part, holder)
        return None

    def _record_done(self, turn: UnitTurn, claim: Claim, part: RunPart, holder: str) -> None:
        unit = turn.unit.id
        spec = part.specs[unit]
        folder = self.place.part(holder, turn.system)
        figure = None
        rule = self.record.plan.settle
        if rule is not None and spec.window is not None:
            figure = part.figure(spec, folder, rule.metric)

        done = UnitDone(
            unit=unit,
            system=turn.system,
            worker=holder,
            generation=claim.generation,
            **asdict(part.usage(spec, folder)),
            finished_at=_now(),
            figure=figure,
        )
        if claim.finish(encode_value(done)):
            self.place.store.delete(failed_key(unit))
            self.view.done.add(unit)

    def _record_failure(
        self, turn: UnitTurn, claim: Claim, requeued: int, ended: _EndedUnit
    ) -> None:
        failure = UnitFailed(
            unit=turn.unit.id,
            system=turn.system,
            error=ended.error,
            worker=self.parts.worker,
            generation=claim.generation,
            requeued=requeued,
            launch=self.view.launch,
            failed_at=_now(),
            needed=ended.needed,
            cost_usd=self.parts.list_costs().get(turn.system, {}).get(turn.unit.id),
        )
        if claim.is_ours():
            self.place.store.replace(failed_key(turn.unit.id), encode_value(failure))
            self.view.note_failure(failure)

        claim.release()

    def publish_paid(self) -> None:
        """Write the cost of unfinished units so far, for observers."""
        store = self.place.store
        key = paid_key(self.parts.worker)
        before = self._paid
        if before is None:  # an earlier process of this name may have written costs for its parts
            before = find_value(store, key, WorkerPaid) or WorkerPaid()

        usd = dict(before.usd)
        for slug, paid in self.parts.list_costs().items():
            usd[slug] = {unit: cost for unit, cost in paid.items() if unit not in self.view.done}

        now = WorkerPaid(usd=usd)
        if now != before:
            store.replace(key, encode_value(now))

        self._paid = now

    def ask_at_start(self, slug: str, claim: Claim) -> None:
        """Ask a system the fixed questions, continuing where another worker stopped."""
        try:
            part = self.part(slug)
            continue_canary(self.place, slug, part)
            part.ask_at_start(claim.check)
        except (KeyboardInterrupt, FencedError):
            claim.release()
        except KtdevalError as problem:
            self.stopped.setdefault(slug, problem)
            claim.release()
        else:
            if claim.finish(_DONE):
                self.view.done.add(claim.unit)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
