"""Jobs after the units of a grid: which are left, what does them, and whose parts they are made of."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from grid_store import HandMade, unit_id
from grid_workers import board_of
from ktdeval.calls.records.call_log import CallLog
from ktdeval.errors import FencedError, StoreError
from ktdeval.runner import RunPart
from ktdeval.values import content_hash
from ktdeval_grid.coordination.claims import Claim
from ktdeval_grid.state.layout import (
    GridPlace,
    amend_job,
    card_job,
    end_job,
    gather_job,
    open_place,
    start_job,
)
from ktdeval_grid.workers.gather_runs import AtEnd, Gathering, GatherJob
from ktdeval_grid.workers.grid_observer import GridView, WorkerLiveness
from ktdeval_grid.workers.unit_takeover import canary_part, furthest_part
from support.providers.call_runs import call_of

FIRST = "builtin-momentum_react"
TASK = "blinded_open_research"


def no_part(slug: str) -> RunPart:
    raise StoreError(f"{slug}: no part is open")


def gathering_of(grid: HandMade, done: Iterable[str], at_end: AtEnd | None = None) -> Gathering:
    """The jobs of a grid as a worker sees them that has seen some units and jobs done."""
    place = open_place(grid.store.root)
    board = board_of(grid)
    view = GridView(place.store, board, WorkerLiveness(60.0), "0001", done=set(done))

    return Gathering(grid.record, place, board, view, no_part, at_end)


def done_of(system: int, count: int) -> list[str]:
    return [unit_id(system, number) for number in range(count)]


def claim_of(gathering: Gathering, job: GatherJob | None) -> tuple[GatherJob, Claim]:
    """A job with the claim of its lock."""
    assert job is not None
    claim = gathering.board.claim(job.lock)
    assert claim is not None
    return job, claim


def last_job(grid: HandMade, make: AtEnd) -> tuple[Gathering, GatherJob, Claim]:
    """The last job of a grid, claimed, which makes something."""
    gathering = gathering_of(grid, done_of(0, 1), make)
    return gathering, *claim_of(gathering, gathering.last_job())


# ---- names


def test_a_job_is_named_by_what_it_is_made_from() -> None:
    units = content_hash(["a", "b"])[:12]
    task = content_hash("t")[:12]

    assert gather_job("s", ["b", "a"]) == f"gather.s.{units}"
    assert card_job("s", "t", ["a", "b"]) == f"card.s.{task}.{units}"
    assert end_job(["a", "b"]) == f"end.{units}"
    assert (amend_job(7), start_job("s")) == ("open-0007", "start.s")
    assert gather_job("s", ["a"]) != gather_job("s", ["a", "b"])


# ---- which jobs are left


def test_a_run_is_gathered_before_its_cards_are_made(grid: HandMade) -> None:
    done = done_of(0, 3)
    gathering = gathering_of(grid, done)
    name = gather_job(FIRST, done)

    assert list(gathering.jobs(grid.record.systems)) == [GatherJob(name, f"gather.{FIRST}", FIRST)]

    gathering.view.done.add(name)
    card = card_job(FIRST, TASK, done)

    assert list(gathering.jobs(grid.record.systems)) == [
        GatherJob(card, f"lock.{card}", FIRST, TASK)
    ]

    gathering.view.done.add(card)
    assert list(gathering.jobs(grid.record.systems)) == []


def test_a_job_that_failed_here_is_not_tried_again(grid: HandMade) -> None:
    done = done_of(0, 1)
    gathering = gathering_of(grid, done)
    gathering.problems[gather_job(FIRST, done)] = StoreError("the disk is full")

    assert list(gathering.jobs(grid.record.systems)) == []


# ---- doing a job


def test_a_job_that_is_done_is_recorded_once_and_its_lock_freed(grid: HandMade) -> None:
    ended: list[Path] = []
    gathering, job, claim = last_job(grid, lambda place, _: ended.append(place.root))

    gathering.do(job, claim)
    gathering.do(*claim_of(gathering, job))  # which another may have done meanwhile

    assert ended == [grid.store.root]
    assert job.name in gathering.view.done
    assert grid.store.read(f"done/{job.name}.json") == b"{}\n"
    assert gathering.problems == {}


def test_a_job_that_fails_is_a_problem_and_not_done(grid: HandMade) -> None:
    gathering = gathering_of(grid, done_of(0, 1))
    (job,) = gathering.jobs(grid.record.systems)

    gathering.do(*claim_of(gathering, job))

    assert str(gathering.problems[job.name]) == f"{FIRST}: no part is open"
    assert job.name not in gathering.view.done
    assert not gathering.board.is_done(job.name)
    assert gathering.board.claim(job.lock) is not None  # another may try


def take_over(gathering: Gathering, lock: str) -> None:
    """Let another worker take a lock over, as after a lease without a sign of life."""
    key = f"claims/{lock}/0001.json"
    gathering.place.store.create(key.replace("0001", "0002"), gathering.place.store.read(key))


@pytest.mark.parametrize("problem", [None, StoreError("what was missed is there by now")])
def test_a_job_that_another_worker_took_over_is_neither_done_nor_a_problem(
    problem: StoreError | None, grid: HandMade
) -> None:
    def lose(_place: GridPlace, _record: object) -> None:
        take_over(gathering, "end")
        if problem is not None:
            raise problem

    gathering, job, claim = last_job(grid, lose)

    gathering.do(job, claim)

    assert gathering.problems == {}
    assert job.name not in gathering.view.done
    assert not gathering.board.is_done(job.name)


def test_a_job_that_was_lost_before_it_began_does_nothing(grid: HandMade) -> None:
    ended: list[Path] = []
    gathering, job, claim = last_job(grid, lambda place, _: ended.append(place.root))
    take_over(gathering, "end")

    gathering.do(job, claim)

    assert ended == []

    with pytest.raises(FencedError):
        claim.check()


# ---- whose part has come furthest


def journal(place: GridPlace, worker: str, unit: str, steps: int) -> Path:
    """A part in which a worker has journalled some steps of a unit."""
    part = place.part(worker, FIRST)
    folder = part / "episodes" / unit
    folder.mkdir(parents=True)
    (folder / "journal.jsonl").write_text("{}\n" * steps)

    return part


def asked(place: GridPlace, worker: str, label: str, count: int) -> Path:
    """A part in which a worker has recorded some calls of an episode, or fixed questions."""
    part = place.part(worker, FIRST)
    part.mkdir(parents=True)

    with CallLog(part) as log:
        for _ in range(count):
            log.record(call_of(label))

    return part


def test_the_furthest_part_has_most_steps_of_a_unit(tmp_path: Path) -> None:
    place = open_place(tmp_path)
    unit = unit_id(0, 0)

    assert furthest_part(place, FIRST, unit) is None

    journal(place, "a", unit, 1)
    furthest = journal(place, "b", unit, 3)
    journal(place, "c", unit, 2)

    assert place.workers() == ["a", "b", "c"]
    assert furthest_part(place, FIRST, unit) == furthest
    assert furthest_part(place, FIRST, unit_id(0, 1)) is None


def test_a_unit_is_begun_by_its_first_call(tmp_path: Path) -> None:
    place = open_place(tmp_path)
    part = asked(place, "a", "unit", 1)
    place.part("b", FIRST).mkdir(parents=True)

    assert furthest_part(place, FIRST, "unit") == part


def test_the_fixed_questions_are_of_the_part_that_asked_most(tmp_path: Path) -> None:
    place = open_place(tmp_path)
    assert canary_part(place, FIRST) is None

    asked(place, "a", "another", 5)
    assert canary_part(place, FIRST) is None

    asked(place, "b", "canary", 1)
    most = asked(place, "c", "canary", 2)

    assert canary_part(place, FIRST) == most


def test_the_unfinished_units_of_a_run_are_those_that_a_part_has_begun(grid: HandMade) -> None:
    finished = unit_id(0, 0)
    begun = unit_id(0, 1)
    gathering = gathering_of(grid, [finished])
    done_in = journal(gathering.place, "a", finished, 2)
    part = journal(gathering.place, "b", begun, 1)

    unfinished = gathering._find_unfinished(grid.record.systems[0], {finished: done_in})

    assert unfinished == {begun: part}


@pytest.mark.parametrize(
    ("checked_by", "protocol", "has_checks"),
    [("b", "native", True), ("b", None, False), (None, "native", False)],
)
def test_checks_are_of_the_worker_that_resolved_a_model_behind_a_network(
    checked_by: str | None, protocol: Any, has_checks: bool, grid: HandMade
) -> None:
    gathering = gathering_of(grid, [])
    system = structs.replace(grid.record.systems[0], checked_by=checked_by, tool_protocol=protocol)

    found = gathering._checks(system)

    assert found == (gathering.place.part("b", FIRST) if has_checks else None)
