"""Pairs of systems whose order is settled: looks, what is not run, and who may begin what."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from grid_looks import RULE, TASK, cell_id, plan_of_looks, record_of_looks
from grid_store import HandMade, done, failure, record_of, small_plan
from grid_workers import worker_of
from ktdeval.errors import ConfigError, UsageError
from ktdeval.testing import on_each_row, text_of
from ktdeval_grid.launch.json_events import UnitEvents
from ktdeval_grid.state.amend import amendment
from ktdeval_grid.state.grid_control import Control, change_control, drop_model
from ktdeval_grid.state.printed_status import status_lines
from ktdeval_grid.state.settled_pairs import (
    LOOKS,
    LookBook,
    PairLook,
    PairSettlement,
    blocks_of,
    looks_to_make,
    settled_systems,
)
from ktdeval_grid.state.status import look, reader_of
from ktdeval_grid.workers.worker_loop import Worker

FIRST = "builtin-momentum_react"
SECOND = "builtin-reversal_react"
THIRD = "builtin-random_react"


def figures_of(system: int, values: Iterable[float | None]) -> dict[str, float | None]:
    return {cell_id(system, place): value for place, value in enumerate(values)}


def finish(grid: HandMade, system: int, values: Iterable[float | None]) -> None:
    for unit, figure in figures_of(system, values).items():
        grid.finish(done(unit, figure=figure, calls=5))


def looking(grid: HandMade) -> Worker:
    """A worker that has looked at a grid once, and may begin ever so much at once."""
    worker = worker_of(grid)
    worker.view.unrun = worker._settlement.look(worker.view.done, worker.view.control)
    return worker


def due(worker: Worker) -> set[str]:
    return {turn.unit.id for turn in worker._open_turns()}


@pytest.fixture
def grid(tmp_path: Path) -> HandMade:
    return HandMade(tmp_path, record_of_looks())


# ---- looks


def test_a_look_is_made_once_both_systems_have_its_windows() -> None:
    record = record_of_looks()
    figures = figures_of(0, [0.02] * 6) | figures_of(1, [0.01] * 5)

    assert list(looks_to_make(record, figures, {})) == []

    figures |= figures_of(1, [0.01] * 6)
    (made,) = looks_to_make(record, figures, {})
    assert (made.first, made.second, made.task) == (FIRST, SECOND, TASK)
    assert made.look == 1
    assert made.differences == (0.01,) * 6
    # At six of ten windows 0.8 % may be used; equal signs are two of 64 patterns, 3.1 %.
    assert (made.settled, made.sign) == (False, 0)


def test_eight_equal_signs_settle_the_order_at_the_second_look() -> None:
    values = [0.01 * place for place in range(1, 9)]
    figures = figures_of(0, [0.0] * 8) | figures_of(1, values)

    made = list(looks_to_make(record_of_looks(), figures, {}))

    assert [look.settled for look in made] == [False, True]
    assert made[1].sign == -1
    assert made[1].statistic == -36.0


def test_no_look_is_made_after_the_one_that_settles() -> None:
    values = [0.01 * place for place in range(1, 11)]
    figures = figures_of(0, values) | figures_of(1, [0.0] * 10)

    assert [look.look for look in looks_to_make(record_of_looks(), figures, {})] == [1, 2]


def test_a_difference_is_the_median_over_seeds() -> None:
    record = record_of_looks(seeds=3)
    figures: dict[str, float | None] = {}
    for place in range(6):
        for seed, value in enumerate((0.01, 0.02, 0.9)):
            figures[cell_id(0, place, seed)] = value
            figures[cell_id(1, place, seed)] = 0.0

    (made,) = looks_to_make(record, figures, {})
    assert made.differences == (0.02,) * 6


def test_a_figure_that_is_undefined_ends_the_looks() -> None:
    values = [0.01, 0.02, None, 0.04, 0.05, 0.06]
    figures = figures_of(0, values) | figures_of(1, [0.0] * 6)

    assert list(looks_to_make(record_of_looks(), figures, {})) == []


def test_a_recorded_look_is_not_made_again_whatever_its_figures(grid: HandMade) -> None:
    finish(grid, 0, [0.01 * place for place in range(1, 9)])
    finish(grid, 1, [0.0] * 8)
    by_hand = PairLook(
        task=TASK,
        first=FIRST,
        second=SECOND,
        look=1,
        windows=6,
        differences=(1.0,) * 6,
        statistic=21.0,
        boundary=21.0,
        settled=True,
        sign=1,
    )
    LookBook(grid.store).record(by_hand)

    reasons = looking(grid).view.unrun

    assert len(list(grid.store.list(LOOKS))) == 1
    assert set(reasons.values()) == {"not run: settled at look 1, after 6 windows"}


# ---- what is not run


def test_units_after_the_settling_look_are_not_run(grid: HandMade) -> None:
    settle(grid)

    unrun = PairSettlement(grid.record, grid.store).look(_all_units(grid, 8), Control())

    assert sorted(unrun) == [cell_id(0, 8), cell_id(0, 9), cell_id(1, 8), cell_id(1, 9)]


def _all_units(grid: HandMade, windows: int) -> set[str]:
    return {cell_id(system, place) for system in (0, 1) for place in range(windows)}


def _three(folder: Path, third: Sequence[float]) -> HandMade:
    """Three systems of which the first two are settled against each other."""
    record = record_of_looks(models=["builtin/momentum", "builtin/reversal", "builtin/random"])
    grid = HandMade(folder, record)
    finish(grid, 0, [0.01 * place for place in range(1, 9)])
    finish(grid, 1, [0.0] * 8)
    finish(grid, 2, third)
    return grid


@pytest.mark.parametrize(
    ("third", "settled"),
    [
        # It has no figure yet: nobody's order against it is known.
        ([], set()),
        # Between the two: settled against both
        ([0.005 * place for place in range(1, 9)], {FIRST, SECOND, THIRD}),
        # As good as the first: the second alone is settled against all
        ([0.01 * place + (-1) ** place * 0.001 for place in range(1, 9)], {SECOND}),
    ],
)
def test_a_system_ends_when_all_its_pairs_are_settled(
    third: Sequence[float], settled: set[str], tmp_path: Path
) -> None:
    grid = _three(tmp_path, third)
    looking(grid)
    book = LookBook(grid.store)
    book.read()

    found = settled_systems(grid.record, book.values, Control())

    assert {each.system for each in found} == settled


def settle(grid: HandMade) -> HandMade:
    """Finish eight windows of the first two systems, which settles their order."""
    finish(grid, 0, [0.01 * place for place in range(1, 9)])
    finish(grid, 1, [0.0] * 8)
    return grid


def test_a_dropped_model_holds_up_nobody(tmp_path: Path) -> None:
    models = ["builtin/momentum", "builtin/reversal", "builtin/random"]
    grid = settle(HandMade(tmp_path, record_of_looks(models=models)))
    change_control(grid.store, drop_model("builtin/random"))

    assert {unit[:2] for unit in looking(grid).view.unrun} == {"00", "01"}


# ---- who may begin what


def test_windows_before_the_next_look_are_begun_and_no_others(grid: HandMade) -> None:
    assert due(looking(grid)) == _all_units(grid, 6)

    finish(grid, 0, [0.01, 0.0, 0.0, 0.0, 0.0, 0.0])
    finish(grid, 1, [0.0, 0.01, 0.0, 0.0, 0.0])
    # The look lacks one unit, on which all wait.
    assert due(looking(grid)) == {cell_id(1, 5)}

    finish(grid, 1, [0.0, 0.01, 0.0, 0.0, 0.0, 0.0])
    assert due(looking(grid)) == _all_units(grid, 8) - _all_units(grid, 6)


def test_a_unit_that_failed_holds_up_nobody(grid: HandMade) -> None:
    finish(grid, 0, [0.01] * 6)
    finish(grid, 1, [0.0] * 5)
    grid.fail(failure(cell_id(1, 5), "the server is down"))

    assert due(looking(grid)) == _all_units(grid, 8) - _all_units(grid, 6)


def test_a_settled_grid_has_nothing_left_to_do(grid: HandMade) -> None:
    settle(grid)
    worker = looking(grid)

    assert due(worker) == set()
    assert all(worker._is_settled(system) for system in grid.record.systems)


def test_without_a_rule_there_is_one_block() -> None:
    assert blocks_of(record_of(small_plan())) == {}


# ---- what is shown


def test_status_counts_and_names_what_is_settled(grid: HandMade) -> None:
    settle(grid)
    looking(grid)

    found, status = look(reader_of(grid.store))

    total = status.total
    assert (total.planned, total.done, total.settled, total.left) == (20, 16, 4, 0)
    assert status.is_finished
    assert status.steps_saved == 4 * 3
    assert text_of(status_lines(status)) == snapshot("""\
small: 16 of 20 episodes done, 4 settled and not run

MODEL              done  settled   USD
builtin-momentum   8/10        2  2.00
builtin-reversal   8/10        2  2.00
total             16/20        4  4.00

settled at look 2 (8 of 10 windows of blinded_open_research): total_return of builtin-momentum_react is above that of builtin-reversal_react
saved: 4 episodes not run, about 12 decisions, 20 model calls, 1.00 USD
""")

    states = [line.state for line in UnitEvents().news(found)]
    assert states.count("settled") == 4


# ---- plans


def test_a_plan_that_stops_needs_a_rule() -> None:
    with pytest.raises(ConfigError, match="settled needs the rule"):
        plan_of_looks(settle=None)


def test_a_rule_compares_two_systems() -> None:
    with pytest.raises(ConfigError, match="the plan has one"):
        plan_of_looks(models=["builtin/momentum"])


@on_each_row(
    "change, words",
    ({"looks": [8, 6]}, "must increase"),
    ({"looks": [4]}, "4 windows can't settle the question"),
    ({"alpha": 0.9}, "alpha"),
    ({"spending": "none"}, "spending"),
    ({"effect": 0.0}, "effect"),
)
def test_a_rule_that_can_settle_nothing_is_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        plan_of_looks(settle={**RULE, **change})


@pytest.mark.parametrize("rule", [None, {**RULE, "alpha": 0.1}])
def test_the_rule_of_a_grid_is_kept(rule: Any) -> None:
    changed = plan_of_looks(settle=rule, stop_when="never")

    with pytest.raises(UsageError, match="settle: "):
        amendment(plan_of_looks(stop_when="never"), changed)


def test_an_amendment_may_run_what_was_settled() -> None:
    changed = amendment(plan_of_looks(), plan_of_looks(stop_when="never"))

    assert list(changed.lines()) == ["changed: stop_when: never (was settled)"]
