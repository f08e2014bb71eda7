"""Main loop of a worker: claim a unit, run it, record it; at the end, gather runs and make
cards.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Set
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial

from ktdeval_grid.coordination.claims import Claim, ClaimBoard
from ktdeval_grid.planning.plan import batched_systems
from ktdeval_grid.state.layout import start_job
from ktdeval_grid.state.records import GridRecord, GridSystem, GridUnit
from ktdeval_grid.state.settled_pairs import PairSettlement, blocks_of
from ktdeval_grid.state.unit_order import (
    UnitTurn,
    first_place_of,
    share_of,
    shares_of_providers,
    turns_of,
)
from ktdeval_grid.workers.gather_runs import Gathering, GatherJob
from ktdeval_grid.workers.grid_observer import GridView
from ktdeval_grid.workers.run_unit import UnitRunner
from ktdeval_grid.workers.worker_run_folders import CALLS_AT_ONCE

_TICK_S = 0.2  #: longest time before a signal is noticed
_IDLE_TICK_S = 0.05  #: longest time before an idle worker notices that another worker has ended
_RETRY_S = 1.0  #: time after which a unit held by another worker is tried again
_MAX_THREADS = 10_000


@dataclass(frozen=True)
class WorkPiece:
    """A piece of work claimed for this worker."""

    do: Callable[[], None]
    provider: str | None  #: provider whose slot the piece occupies; None: the piece needs no slot


Running = dict[Future[None], str | None]
"""Work in progress, with the provider whose slot each piece occupies."""


@dataclass
class Worker:
    """A worker on a grid, as defined by the grid's record."""

    record: GridRecord
    board: ClaimBoard
    view: GridView
    runner: UnitRunner
    gathering: Gathering
    only: frozenset[str] | None = None  #: units to run; None: all
    is_stopping: bool = False
    #: names that were refused, and when to try them again
    _refused: dict[str, float] = field(default_factory=dict)
    _is_draining: bool = False  #: whether parts were interrupted and must be reopened

    def __post_init__(self) -> None:
        self._turns = turns_of(self.record)
        self._blocks = blocks_of(self.record)
        self._settlement = PairSettlement(self.record, self.view.store)
        self._batched = batched_systems(self.record.plan)
        self._providers = {
            system.slug: self.record.model(system.model).provider for system in self.record.systems
        }

    def stop(self) -> None:
        """End after the steps in progress. May be called by a signal handler."""
        self.is_stopping = True
        self.runner.parts.interrupt()

    def work(self) -> None:
        """Work until there is nothing left that this worker could do, now or later.

        Raises KtdevalError; KeyboardInterrupt after `stop`.
        """
        running: Running = {}
        is_idle = False
        with ThreadPoolExecutor(_MAX_THREADS, thread_name_prefix="unit") as pool:
            try:
                while not self.is_stopping:
                    if self.view.look(is_idle=is_idle):
                        self._forget_done()
                        self.runner.publish_paid()

                    self._fill(pool, running)
                    is_idle = not running
                    if not running and not self._is_draining and self._is_over():
                        break

                    running = self._without_ended(running)
                    if self.runner.parts.allowance is not None:
                        self.runner.parts.allowance.give_back_idle()
            finally:
                if running:
                    self.runner.parts.interrupt()

        for future in running:
            future.result()

        self.runner.publish_paid()
        if self.is_stopping:
            raise KeyboardInterrupt

    def _fill(self, pool: ThreadPoolExecutor, running: Running) -> None:
        """Start as many pieces of work as this worker may run at once."""
        if self.view.control.paused and not self._is_draining:
            self._is_draining = True
            self.runner.parts.interrupt()

        if self._is_draining:
            if running or self.view.control.paused:
                return

            self.runner.parts.close()
            self._is_draining = False

        self.view.unrun = self._settlement.look(self.view.done, self.view.control)
        with ExitStack() as holds:
            # the rounds of these systems wait for all units that begin here
            for slug in self._batched:
                holds.enter_context(self.runner.parts.rounds(slug).hold())

            while len(running) < self._share():
                piece = self._next_piece(running)
                if piece is None:
                    return

                running[pool.submit(piece.do)] = piece.provider

    def _next_piece(self, running: Running) -> WorkPiece | None:
        """Claim the next piece of work.

        Providers that occupy less than their share of the slots come first, so that a slow provider
        does not block others. After that, any provider may be chosen.
        """
        under_way = Counter(running.values())
        shares = self._shares()
        below = {name for name, share in shares.items() if under_way[name] < share}
        return next(self._pieces(below), None) or next(self._pieces(None), None)

    def _shares(self) -> dict[str, int]:
        """Return how many of this worker's slots belong to each provider that has units left.

        The result is empty if the grid has fewer slots than providers.
        """
        providers = []
        for system in self.record.systems:
            if self._is_wanted(system) and self._has_units_left(system):
                providers.append(self._providers[system.slug])

        total = self.view.control.concurrency or self.record.plan.concurrency
        if (total or self._share()) < len(set(providers)):
            return {}

        first = 0
        if total is not None:
            first = first_place_of(total, self.view.workers, self.runner.parts.worker)

        return shares_of_providers(providers, first, self._share())

    def _share(self) -> int:
        """Return the number of episodes that this worker may run at once."""
        total = self.view.control.concurrency or self.record.plan.concurrency
        if total is not None:
            return share_of(total, self.view.workers, self.runner.parts.worker)

        if self._batched:
            return _MAX_THREADS

        is_remote = any(system.tool_protocol is not None for system in self.record.systems)
        return CALLS_AT_ONCE if is_remote else 1

    def _without_ended(self, running: Running) -> Running:
        """Wait briefly for work to end. Return the work that is still running."""
        if not running:
            time.sleep(_IDLE_TICK_S)
            return running

        ended, left = wait(running, _TICK_S, FIRST_COMPLETED)
        for future in ended:
            future.result()  # failures of units are recorded; any other error ends this worker

        return {future: running[future] for future in left}

    def _pieces(self, providers: Set[str] | None) -> Iterator[WorkPiece]:
        """Yield pieces of work for some or all providers, with the most urgent first.

        Each piece is claimed when the iterator reaches it.
        """
        for system in self.record.systems:
            provider = self._providers[system.slug]
            asks = self.runner.has_questions(system) and self._is_wanted(system)
            if asks and _is_among(provider, providers) and self._has_units_left(system):
                claim = self._claim(start_job(system.slug))
                if claim is not None:
                    yield WorkPiece(partial(self.runner.ask_at_start, system.slug, claim), provider)

        for turn in self._open_turns():
            provider = self._providers[turn.system]
            if _is_among(provider, providers):
                claim = self._claim(turn.unit.id)
                if claim is not None:
                    requeued = self.view.control.requeued.get(turn.unit.id, 0)
                    self.runner.parts.rounds(turn.system).join()
                    yield WorkPiece(partial(self.runner.run, turn, claim, requeued), provider)

        for job in self._jobs():
            owner = self._providers.get(job.system or "")  # None: a job on all systems
            if owner is None or _is_among(owner, providers):
                claim = self._claim(job.lock)
                if claim is not None:
                    yield WorkPiece(partial(self.gathering.do, job, claim), owner)

    def _claim(self, name: str) -> Claim | None:
        """Claim a unit or a lock, unless it is done or was refused a moment ago."""
        now = time.monotonic()
        if name in self.view.done or self._refused.get(name, now) > now:
            return None

        claim = self.board.claim(name)
        if claim is None:
            self._refused[name] = now + _RETRY_S

        return claim

    def _open_turns(self) -> Iterator[UnitTurn]:
        """Yield the open units that this worker may run."""
        wanted = {system.slug for system in self.record.systems if self._is_wanted(system)}
        turns = []
        for turn in self._turns:
            if turn.system in wanted and self._is_open(turn.unit):
                turns.append(turn)

        yield from self._before_next_look(turns)

    def _before_next_look(self, turns: list[UnitTurn]) -> Iterator[UnitTurn]:
        """Yield the units that are due before the next look at their task.

        The look may settle a pair, so that later units need not be run. Without `stop_when:
        settled`, all units are due.
        """
        if self.record.plan.stop_when == "never":
            yield from turns
            return

        due: dict[str, int] = {}
        for turn in turns:
            block = self._blocks[turn.unit.id]
            due[turn.unit.task] = min(block, due.get(turn.unit.task, block))

        for turn in turns:
            if self._blocks[turn.unit.id] == due[turn.unit.task]:
                yield turn

    def _forget_done(self) -> None:
        """Remove finished units from the list of open ones."""
        self._turns = [turn for turn in self._turns if turn.unit.id not in self.view.done]

    def _is_wanted(self, system: GridSystem) -> bool:
        """Return whether this worker starts more units for a system."""
        is_dropped = self.view.control.drops(self.record.model(system.model))
        return not is_dropped and system.slug not in self.runner.stopped

    def _is_open(self, unit: GridUnit) -> bool:
        """Return whether a unit is to be run and has not ended."""
        is_meant = self.only is None or unit.id in self.only
        is_over = unit.id in self.view.done or unit.id in self.view.unrun
        return is_meant and not is_over and not self.view.has_failed(unit.id)

    def _has_units_left(self, system: GridSystem) -> bool:
        """Return whether a system has units that have not ended."""
        return any(map(self._is_open, system.units))

    def _is_settled(self, system: GridSystem) -> bool:
        """Return whether no unit of a system is running or will be run."""
        open_units = [unit for unit in system.units if self._is_open(unit)]
        if self._is_wanted(system):
            return not open_units
        return not any(self.board.holder(unit.id) is not None for unit in open_units)

    def _jobs(self) -> Iterator[GatherJob]:
        """Yield the jobs that follow units and can be done now."""
        settled = [system for system in self.record.systems if self._is_settled(system)]
        jobs = list(self.gathering.jobs(settled))
        yield from jobs

        last = self.gathering.last_job()
        if not jobs and len(settled) == len(self.record.systems) and last is not None:
            yield last

    def _is_over(self) -> bool:
        """Return whether this worker has nothing left to do or to wait for."""
        for system in self.record.systems:
            if not self._is_settled(system):
                return False

        return next(self._jobs(), None) is None


def _is_among(provider: str, providers: Set[str] | None) -> bool:
    return providers is None or provider in providers
