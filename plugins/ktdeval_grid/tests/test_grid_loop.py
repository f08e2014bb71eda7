"""Loop of a worker: how much it does at once, what it claims next, and when nothing is left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from grid_store import HandMade, done, failure, record_of, small_plan, unit_id
from grid_workers import worker_of
from ktdeval.errors import StoreError
from ktdeval.registry import load_plugins
from ktdeval.testing import on_each_row
from ktdeval_grid.state.grid_control import change_control, drop_model, set_paused
from ktdeval_grid.state.layout import gather_job
from ktdeval_grid.state.records import GridRecord, WorkerPaid, paid_key
from ktdeval_grid.workers.worker_loop import Worker
from ktdeval_grid.workers.worker_run_folders import OpenRunFolders

FIRST = "builtin-momentum_react"
SECOND = "builtin-reversal_react"
SERVER = "openai_compatible http://localhost:1/v1"
SERVED = {"name": "openai_compatible/m", "base_url": "http://localhost:1/v1", "label": "served"}


def of_plan(folder: Path, protocol: Any = None, **changes: Any) -> HandMade:
    """A grid of another plan; `protocol`: how its first model takes tools."""
    record = record_of(small_plan(**changes))
    first, *others = record.systems
    first = structs.replace(first, tool_protocol=protocol)

    return HandMade(folder, structs.replace(record, systems=(first, *others)))


def claimed(worker: Worker) -> list[str]:
    """Claim all that a worker can have now; names of units and locks."""
    before = set(worker.board._ours)
    while worker._next_piece({}) is not None:
        pass

    return [name for name in worker.board._ours if name not in before]


def finish(grid: HandMade, system: int, units: Sequence[int]) -> None:
    for unit in units:
        grid.finish(done(unit_id(system, unit)))


# ---- how much at once


@on_each_row(
    "protocol, concurrency, share",
    (None, None, 1),
    ("native", None, 8),
    (None, 5, 5),
    ("native", 3, 3),
)
def test_a_worker_runs_as_many_episodes_as_its_plan_or_its_models_allow(
    protocol: Any, concurrency: int | None, share: int, tmp_path: Path
) -> None:
    grid = of_plan(tmp_path, protocol, concurrency=concurrency)

    assert worker_of(grid)._share() == share


@pytest.fixture
def served(tmp_path: Path) -> Callable[[int], HandMade]:
    """Make a grid of two models of two providers."""
    models = ["builtin/momentum", SERVED]
    return lambda concurrency: of_plan(tmp_path, models=models, concurrency=concurrency)


def test_places_of_a_worker_belong_to_providers_that_have_units_left(
    served: Callable[[int], HandMade],
) -> None:
    grid = served(3)

    assert worker_of(grid)._shares() == {"builtin": 2, SERVER: 1}

    finish(grid, 0, range(4))
    assert worker_of(grid)._shares() == {SERVER: 3}


def test_fewer_places_than_providers_belong_to_nobody(served: Callable[[int], HandMade]) -> None:
    assert worker_of(served(1))._shares() == {}


def test_the_second_worker_has_the_places_after_those_of_the_first(
    served: Callable[[int], HandMade],
) -> None:
    grid = served(2)
    first = worker_of(grid, "a")
    second = worker_of(grid, "b")
    first.view.look(at_once=True)

    assert first._shares() == {"builtin": 1, SERVER: 0}
    assert second._shares() == {"builtin": 0, SERVER: 1}


# ---- what is next


def test_all_units_are_claimed_and_each_once(grid: HandMade) -> None:
    worker = worker_of(grid)

    names = claimed(worker)

    assert sorted(names) == sorted(unit.id for _, unit in grid.record.units())
    assert claimed(worker) == []


def test_units_that_are_done_failed_or_another_workers_are_not_claimed(grid: HandMade) -> None:
    finish(grid, 0, [0])
    grid.fail(failure(unit_id(0, 1), "down", launch="0001"))
    other = worker_of(grid, "other")

    assert other.board.claim(unit_id(0, 2)) is not None

    names = claimed(worker_of(grid))

    assert [name for name in names if name.startswith("00")] == [unit_id(0, 3)]


def test_units_of_a_dropped_or_given_up_system_are_not_claimed(grid: HandMade) -> None:
    change_control(grid.store, drop_model("builtin-momentum"))
    worker = worker_of(grid)
    worker.runner.stopped[SECOND] = StoreError("the disk is full")

    assert claimed(worker) == []


def test_canary_questions_precede_the_units_of_a_networked_model(
    tmp_path: Path,
) -> None:
    grid = of_plan(tmp_path, "native", options={"canary": 2})
    worker = worker_of(grid)

    names = claimed(worker)

    assert names[0] == f"start.{FIRST}"
    assert f"start.{SECOND}" not in names  # it has no network to go through
    assert len(names) == 9


def test_no_questions_are_asked_of_a_system_whose_units_have_ended(tmp_path: Path) -> None:
    grid = of_plan(tmp_path, "native", options={"canary": 2})
    finish(grid, 0, range(4))

    assert f"start.{FIRST}" not in claimed(worker_of(grid))


def test_the_provider_that_has_less_than_its_share_is_next(
    served: Callable[[int], HandMade],
) -> None:
    grid = served(4)
    worker = worker_of(grid)
    under_way: Any = dict.fromkeys(range(2), "builtin")

    piece = worker._next_piece(under_way)

    assert piece is not None
    assert piece.provider == SERVER

    finish(grid, 1, range(4))
    worker.view.look(at_once=True)
    piece = worker._next_piece(dict.fromkeys(range(4), "builtin"))  # type: ignore[arg-type]

    assert piece is not None
    assert piece.provider == "builtin"  # above its share, but nobody else has work


def test_what_was_refused_is_not_asked_for_again_at_once(grid: HandMade) -> None:
    other = worker_of(grid, "other")
    claim = other.board.claim(unit_id(0, 0))

    assert claim is not None

    worker = worker_of(grid, only=frozenset([unit_id(0, 0)]))
    assert claimed(worker) == []

    claim.release()
    assert claimed(worker) == []

    worker._refused[unit_id(0, 0)] -= 1.0  # a second later
    assert claimed(worker) == [unit_id(0, 0)]


# ---- jobs after the units


def test_a_run_is_gathered_once_all_units_of_its_system_have_ended(grid: HandMade) -> None:
    finish(grid, 0, [0, 1, 2])
    grid.fail(failure(unit_id(0, 3), "down", launch="0001"))
    finish(grid, 1, [0])
    worker = worker_of(grid)

    jobs = list(worker._jobs())

    assert [job.lock for job in jobs] == [f"gather.{FIRST}"]
    assert not worker._is_over()


def test_a_system_that_is_given_up_is_gathered_when_nobody_runs_its_units(grid: HandMade) -> None:
    finish(grid, 0, [0])
    change_control(grid.store, drop_model("builtin-momentum"))
    other = worker_of(grid, "other")
    claim = other.board.claim(unit_id(0, 1))

    assert claim is not None

    worker = worker_of(grid)
    assert list(worker._jobs()) == []

    claim.release()
    assert [job.lock for job in worker._jobs()] == [f"gather.{FIRST}"]


def make_nothing(_place: object, _record: object) -> None:
    """Do nothing as the last job."""


def test_the_last_job_follows_the_cards_of_all_systems(grid: HandMade) -> None:
    finish(grid, 0, range(4))
    finish(grid, 1, range(4))
    worker = worker_of(grid, at_end=make_nothing)

    assert [job.lock for job in worker._jobs()] == [f"gather.{FIRST}", f"gather.{SECOND}"]

    for number, slug in enumerate((FIRST, SECOND)):
        units = [unit_id(number, unit) for unit in range(4)]
        worker.view.done.add(gather_job(slug, units))

    for job in list(worker._jobs()):
        assert job.task == "blinded_open_research"
        worker.view.done.add(job.name)

    assert [job.lock for job in worker._jobs()] == ["end"]
    assert not worker._is_over()


def test_the_last_job_waits_for_systems_that_are_not_settled(grid: HandMade) -> None:
    finish(grid, 0, range(4))
    worker = worker_of(grid, at_end=make_nothing)
    worker.view.done.add(gather_job(FIRST, [unit_id(0, unit) for unit in range(4)]))
    (card,) = worker._jobs()
    worker.view.done.add(card.name)

    assert list(worker._jobs()) == []
    assert not worker._is_over()


def test_a_worker_whose_units_all_failed_is_over(grid: HandMade) -> None:
    for _, unit in grid.record.units():
        grid.fail(failure(unit.id, "down", launch="0001"))

    worker = worker_of(grid)

    assert worker._is_over()

    worker.work()  # ends at once


# ---- pause and stop


def test_a_paused_worker_begins_nothing_and_goes_on_after_it(grid: HandMade) -> None:
    change_control(grid.store, set_paused(True))
    worker = worker_of(grid)
    running: Any = {}

    worker._fill(None, running)  # type: ignore[arg-type] - nothing is submitted

    assert running == {}
    assert worker.board._ours == {}
    assert worker._is_draining


def test_a_stopped_worker_ends_by_an_interrupt(grid: HandMade) -> None:
    worker = worker_of(grid)
    worker.stop()

    with pytest.raises(KeyboardInterrupt):
        worker.work()

    assert worker.board._ours == {}


# ---- what was paid


def paid(grid: HandMade) -> bytes:
    return grid.store.read(paid_key("w"))


def test_what_an_earlier_process_of_the_name_paid_stays_published(grid: HandMade) -> None:
    worker = worker_of(grid)
    data = b'{"usd":{"another_react":{"u":0.5}}}\n'
    grid.store.create(paid_key("w"), data)

    worker.runner.publish_paid()

    assert paid(grid) == data
    assert worker.runner._paid == WorkerPaid(usd={"another_react": {"u": 0.5}})


def test_nothing_is_published_before_a_call(grid: HandMade) -> None:
    worker_of(grid).runner.publish_paid()

    assert not grid.store.exists(paid_key("w"))


class PaidParts(OpenRunFolders):
    """Open run folders whose calls have cost something."""

    def list_costs(self) -> dict[str, dict[str, float | None]]:
        return {FIRST: {unit_id(0, 0): 0.5, unit_id(0, 1): None, "canary": 0.125}}


def test_what_units_have_cost_is_published_until_they_are_done(grid: HandMade) -> None:
    worker = worker_of(grid)
    place = worker.runner.place
    worker.runner.parts = PaidParts(place, "w", load_plugins())

    worker.runner.publish_paid()

    assert (
        paid(grid)
        == (
            f'{{"usd":{{"{FIRST}":{{"{unit_id(0, 0)}":0.5,"{unit_id(0, 1)}":null,"canary":0.125}}}}}}\n'
        ).encode()
    )

    worker.view.done.add(unit_id(0, 0))
    worker.runner.publish_paid()

    assert unit_id(0, 0).encode() not in paid(grid)


def test_a_plan_of_one_provider_names_it_for_each_system(grid: HandMade) -> None:
    record: GridRecord = grid.record
    providers = worker_of(grid)._providers

    assert providers == {system.slug: "builtin" for system in record.systems}
