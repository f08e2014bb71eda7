"""Gather a grid's runs and make their cards, with one worker for each job.

A run is gathered once all its units are settled. Its cards are separate jobs, so that they are
spread over all workers. A job's name depends on its inputs. After an amendment, or after a failed
unit is finished later, the job therefore has a different name and is repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ktdeval.calls import Fence
from ktdeval.errors import FencedError, KtdevalError
from ktdeval.runner import RunFolder, RunPart, Sources, gather_run
from ktdeval.stores import read_value
from ktdeval_grid.coordination.claims import Claim, ClaimBoard
from ktdeval_grid.state.layout import GridPlace, card_job, end_job, gather_job
from ktdeval_grid.state.records import GridRecord, GridSystem, UnitDone, done_key
from ktdeval_grid.state.unit_order import tasks_of
from ktdeval_grid.workers.grid_observer import GridView
from ktdeval_grid.workers.unit_takeover import canary_part, continue_canary, furthest_part

_DONE = b"{}\n"  #: record of a finished job

#: makes a grid's tables and pages after its last card
AtEnd = Callable[[GridPlace, GridRecord], None]


@dataclass(frozen=True)
class GatherJob:
    """A job that follows the last unit of a system or of the whole grid."""

    name: str  #: name under which the job is recorded as done
    lock: str  #: name of the lock claimed for the job, so that only one worker does it at a time
    system: str | None = None  #: slug of the system; None for a job on all systems
    task: str | None = None  #: task of the card; None for a job that gathers the run


@dataclass(frozen=True)
class Gathering:
    """Jobs of a grid that follow its units."""

    record: GridRecord
    place: GridPlace
    board: ClaimBoard
    view: GridView
    part: Callable[[str], RunPart]  #: returns this process's open part of a system, given its slug
    at_end: AtEnd | None = None
    #: jobs that failed in this worker, by name; it does not retry them
    problems: dict[str, KtdevalError] = field(default_factory=dict)

    def jobs(self, settled: Sequence[GridSystem]) -> Iterator[GatherJob]:
        """Yield the remaining jobs that can be done now.

        `settled`: systems without open units.
        """
        for system in settled:
            done = self._done_of(system)
            if not done:
                continue

            gathered = GatherJob(
                gather_job(system.slug, done), f"gather.{system.slug}", system.slug
            )
            if gathered.name not in self.view.done:
                yield from self._list_untried(gathered)
                continue

            for task in self._tasks(system):
                name = card_job(system.slug, task, done)
                if name not in self.view.done:
                    yield from self._list_untried(
                        GatherJob(name, f"lock.{name}", system.slug, task)
                    )

    def last_job(self) -> GatherJob | None:
        """Return the job that follows all cards; None if it is done, has failed here, or is not
        needed.
        """
        done: list[str] = []
        for system in self.record.systems:
            done += self._done_of(system)

        job = GatherJob(end_job(done), "end")
        if self.at_end is None or not done or job.name in self.view.done | self.problems.keys():
            return None
        return job

    def _list_untried(self, job: GatherJob) -> Iterator[GatherJob]:
        if job.name not in self.problems:
            yield job

    def _done_of(self, system: GridSystem) -> list[str]:
        return [unit.id for unit in system.units if unit.id in self.view.done]

    def _tasks(self, system: GridSystem) -> list[str]:
        """Return the tasks for which a system has at least one finished unit."""
        return tasks_of(unit for unit in system.units if unit.id in self.view.done)

    def do(self, job: GatherJob, claim: Claim) -> None:
        """Do a job whose lock is claimed, unless another worker has done it or takes it over."""
        try:
            if not self.board.is_done(job.name):
                self._do(job, claim.check)
                claim.check()
                self.board.record_done(job.name, _DONE)

            self.view.done.add(job.name)
        except FencedError:
            pass  # the worker that holds the job will do it
        except KtdevalError as problem:
            if claim.is_ours():  # otherwise, another worker may have removed the missing file
                self.problems[job.name] = problem
        finally:
            claim.release()

    def _do(self, job: GatherJob, fence: Fence) -> None:
        fence()
        if job.system is None:
            if self.at_end is not None:
                self.at_end(self.place, self.record)
        elif job.task is None:
            self._gather(self._system(job.system), fence)
        else:
            self._make_card(self._system(job.system), job.task, fence)

    def _system(self, slug: str) -> GridSystem:
        return next(system for system in self.record.systems if system.slug == slug)

    def _gather(self, system: GridSystem, fence: Fence) -> None:
        part = self.part(system.slug)
        if system.tool_protocol is not None:
            continue_canary(self.place, system.slug, part)
            part.ask_at_end(fence)

        finished = self._find_finished(system)
        unfinished: dict[str, Path] = {}
        if system.tool_protocol is not None:
            unfinished = self._find_unfinished(system, finished)

        sources = Sources(
            finished,
            unfinished,
            canary=canary_part(self.place, system.slug),
            checks=self._checks(system),
        )
        gather_run(self.place.run(system.slug), part.path, sources, fence)

    def _find_finished(self, system: GridSystem) -> dict[str, Path]:
        """Return, for each finished unit, the part in which it was finished."""
        finished = {}
        for unit in self._done_of(system):
            done = read_value(self.place.store, done_key(unit), UnitDone)
            finished[unit] = self.place.part(done.worker, system.slug)

        return finished

    def _find_unfinished(self, system: GridSystem, finished: Mapping[str, Path]) -> dict[str, Path]:
        """Return, for each unit that is started but unfinished, the part with the most progress."""
        found = {}
        for unit in system.units:
            if unit.id in finished:
                continue

            path = furthest_part(self.place, system.slug, unit.id)
            if path is not None:
                found[unit.id] = path

        return found

    def _checks(self, system: GridSystem) -> Path | None:
        if system.checked_by is None or system.tool_protocol is None:
            return None
        return self.place.part(system.checked_by, system.slug)

    def _make_card(self, system: GridSystem, task: str, fence: Fence) -> None:
        errors = {}
        for unit in system.units:
            failure = self.view.failed.get(unit.id)
            if failure is not None and unit.task == task:
                errors[unit.id] = failure.error
            elif unit.id in self.view.unrun:
                errors[unit.id] = self.view.unrun[unit.id]

        run = RunFolder.load(self.place.run(system.slug))
        self.part(system.slug).write_card(run, task, errors, fence)
