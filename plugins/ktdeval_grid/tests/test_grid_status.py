"""Where a grid stands, from a store made by hand: states, costs, time left, kinds of failure."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from grid_store import HandMade, done, failure, record_of, small_plan, unit_id
from grid_workers import board_of
from ktdeval.errors import UsageError
from ktdeval.stores import LocalStore
from ktdeval.testing import on_each_row
from ktdeval.values import encode_canonical
from ktdeval_grid.state.grid_control import change_control, drop_model, set_paused
from ktdeval_grid.state.printed_status import duration, failure_lines, headline, status_lines
from ktdeval_grid.state.records import WorkerPaid, paid_key
from ktdeval_grid.state.status import (
    GridStatus,
    furthest_paid,
    look,
    reader_of,
    seconds_left,
)

PRUNED = [3]

TWELVE = datetime(2026, 1, 5, 12, tzinfo=UTC)


def at(minute: int, second: int = 0) -> str:
    return f"2026-01-05T12:{minute:02}:{second:02}+00:00"


def status_of(grid: HandMade) -> GridStatus:
    return look(reader_of(grid.store))[1]


def test_a_unit_runs_while_a_worker_holds_it(grid: HandMade) -> None:
    claim = board_of(grid).claim(unit_id(0, 0))

    assert claim is not None
    assert status_of(grid).total.running == 1

    claim.release()
    assert status_of(grid).total.running == 0


def test_a_unit_that_is_tried_again_is_not_shown_as_failed(grid: HandMade) -> None:
    grid.fail(failure(unit_id(0, 0), "the server is down"))

    assert board_of(grid).claim(unit_id(0, 0)) is not None

    status = status_of(grid)
    assert (status.total.running, status.total.failed, status.failures) == (1, 0, ())


def test_units_of_another_plan_are_not_counted(grid: HandMade) -> None:
    grid.finish(done("f" * 20))
    grid.fail(failure("e" * 20, "gone"))
    assert status_of(grid).total.done == 0
    assert status_of(grid).failures == ()


def test_a_cost_that_is_not_known_is_not_zero(grid: HandMade) -> None:
    grid.finish(done(unit_id(0, 0), cost_usd=None))
    grid.finish(done(unit_id(0, 1)))
    grid.finish(done(unit_id(1, 0), cost_usd=None))
    first, second = status_of(grid).models

    assert (first.uncosted, first.cost_usd, second.uncosted) == (1, 0.25, 1)


def test_failures_that_differ_in_numbers_alone_are_one_kind(grid: HandMade) -> None:
    grid.fail(failure(unit_id(0, 0), "step 3: the server said 503"))
    grid.fail(failure(unit_id(0, 1), "step 12: the server said 503"))
    grid.fail(failure(unit_id(1, 0), "no such model"))
    first, second = status_of(grid).failures

    assert (first.error, len(first.units)) == ("step 3: the server said 503", 2)
    assert first.example == "builtin-momentum_react blinded_open_research W1 seed 0"
    assert (second.error, len(second.units)) == ("no such model", 1)


def test_what_a_budget_stopped_is_no_failure_and_names_limits_needed(
    grid: HandMade,
) -> None:
    grid.fail(failure(unit_id(0, 0), "--max-cost 1.00 USD", needed={"max_cost": 1.5}))
    grid.fail(failure(unit_id(0, 1), "--max-cost 1.00 USD", needed={"max_cost": 1.25}))
    grid.fail(failure(unit_id(1, 0), "--max-tokens 9", needed={"max_tokens": 12}))
    status = status_of(grid)

    assert (status.total.failed, status.total.stopped, status.total.left) == (0, 3, 6)
    assert status.needed == {"max_cost": 1.5, "max_tokens": 12}


def test_pruned_units_are_named_with_their_reason_and_never_missing(grid: HandMade) -> None:
    for system in (0, 1):
        for unit in range(3):
            grid.finish(done(unit_id(system, unit)))

    status = status_of(grid)

    assert status.is_finished
    assert "pruned by by_hand: nothing is learnt" in status_lines(status)


def test_pause_and_dropped_models_are_shown(grid: HandMade) -> None:
    change_control(grid.store, set_paused(True))
    change_control(grid.store, drop_model("builtin-reversal"))
    status = status_of(grid)

    assert status.paused
    assert [model.dropped for model in status.models] == [False, True]


def test_time_left_goes_by_the_pace_of_finished_units() -> None:
    finished = [at(0), at(1), at(2)]
    now = TWELVE.replace(minute=3)

    assert seconds_left(finished, 4, now) == pytest.approx(4 * 90.0)  # 3 minutes for two units
    assert seconds_left(finished[:1], 4, now) is None


def test_the_pace_slows_down_while_nothing_ends() -> None:
    soon, late = (
        seconds_left([at(0), at(1)], 1, TWELVE.replace(minute=minute)) for minute in (2, 30)
    )

    assert soon is not None
    assert late is not None
    assert late > soon


def test_a_folder_without_a_grid_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no grid here \(grid.json is missing\)"):
        reader_of(LocalStore(tmp_path)).look()


def test_a_system_without_units_is_not_finished(tmp_path: Path) -> None:
    record = record_of(small_plan())
    first, second = record.systems
    broken = structs.replace(first, units=(), problem="the server refuses the key")
    grid = HandMade(tmp_path, structs.replace(record, systems=(broken, second)))
    for unit in second.units:
        grid.finish(done(unit.id))

    status = status_of(grid)

    assert not status.is_finished
    assert "not begun: the server refuses the key (builtin-momentum_react)" in status_lines(status)


@on_each_row(
    "seconds, text",
    (0, "0 s"),
    (89, "89 s"),
    (90, "2 min"),
    (5399, "90 min"),
    (12240, "3.4 h"),
)
def test_durations_are_short(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_a_malformed_control_is_a_warning_under_the_table(grid: HandMade, tmp_path: Path) -> None:
    change_control(grid.store, set_paused(True))
    (tmp_path / "control.json").write_text('{"paused": 1}')
    status = status_of(grid)

    assert status.paused
    assert status_lines(status)[-1].startswith("warning: ")
    assert "control.json: paused: expected `bool`" in status_lines(status)[-1]


def pay(grid: HandMade, worker: str, **usd: float | None) -> None:
    """Write what a worker says that its calls of the first model have cost."""
    named = {"builtin-momentum_react": {name.removeprefix("u"): cost for name, cost in usd.items()}}
    data = encode_canonical(WorkerPaid(usd=named)).encode()
    grid.store.replace(paid_key(worker), data)


def test_what_unfinished_units_and_checks_have_cost_is_in_the_table(grid: HandMade) -> None:
    grid.finish(done(unit_id(0, 0)))
    pay(grid, "w-1", **{f"u{unit_id(0, 1)}": 0.5, "canary": 0.125, f"u{unit_id(0, 0)}": 9.0})
    reader = reader_of(grid.store)
    first, second = look(reader)[1].models

    assert (first.cost_usd, second.cost_usd) == (0.25 + 0.5 + 0.125, 0.0)

    # another takes the unit over, with its calls, and makes more
    pay(grid, "w-2", **{f"u{unit_id(0, 1)}": 0.75, "check": 1.0})
    assert look(reader)[1].models[0].cost_usd == 0.25 + 0.75 + 0.125 + 1.0

    grid.fail(failure(unit_id(0, 1), "down", cost_usd=0.75))
    assert look(reader)[1].models[0].cost_usd == 0.25 + 0.75 + 0.125 + 1.0


def test_an_unfinished_unit_without_a_price_has_no_known_cost(grid: HandMade) -> None:
    pay(grid, "w-1", **{f"u{unit_id(0, 1)}": None})
    pay(grid, "w-2", **{f"u{unit_id(0, 1)}": 0.5})
    first, _ = status_of(grid).models

    assert (first.cost_usd, first.uncosted) == (0.0, 1)


def test_earlier_stop_is_over_once_a_later_launch_resumes_the_grid(
    grid: HandMade,
) -> None:
    grid.fail(failure(unit_id(0, 0), "--max-cost 1: reached", needed={"max_cost": 2.0}))
    grid.fail(failure(unit_id(0, 1), "the server is down"))
    grid.store.create("launches/0001.json", b"{}")
    before = status_of(grid)

    assert (before.total.stopped, before.needed) == (1, {"max_cost": 2.0})

    grid.store.create("launches/0002.json", b"{}")
    after = status_of(grid)

    assert (after.total.stopped, after.needed, after.total.failed) == (0, None, 1)
    assert [kind.error for kind in after.failures] == ["the server is down"]

    grid.fail(failure(unit_id(0, 0), "--max-cost 2: reached", launch="0002", needed={}))
    assert status_of(grid).total.stopped == 1


def test_systems_not_begun_are_reported_beside_the_episode_count(
    tmp_path: Path,
) -> None:
    record = record_of(small_plan())
    long = "the server says no and " * 30
    blank = structs.replace(record.systems[0], units=(), problem=long)
    record = structs.replace(record, systems=(blank, *record.systems[1:]))
    status = look(reader_of(HandMade(tmp_path / "g", record).store))[1]

    assert headline(status) == "small: 0 of 4 episodes done, 1 system not begun and not counted"

    (line,) = failure_lines(status)
    assert line.removesuffix(f" ({blank.slug})").endswith(
        (" says …", " no …", " and …", " the …", " server …")
    )


# ---- figures of a model


@on_each_row(
    "paid, failed, cost, uncosted",
    (0.5, 0.75, 0.75, 0),
    (0.5, 0.25, 0.5, 0),
    (0.5, None, 0.5, 0),
    (None, 0.5, 0.0, 1),
    (0.5, "none", 0.5, 0),
)
def test_a_failed_unit_has_cost_what_is_known_of_it(
    paid: float | None, failed: Any, cost: float, uncosted: int, grid: HandMade
) -> None:
    pay(grid, "w-1", **{f"u{unit_id(0, 1)}": paid})
    if failed != "none":
        grid.fail(failure(unit_id(0, 1), "down", cost_usd=failed))

    first, second = status_of(grid).models

    assert (first.cost_usd, first.uncosted) == (cost, uncosted)
    assert (second.cost_usd, second.uncosted) == (0.0, 0)


@on_each_row(
    "costs, furthest",
    ([0.5, 0.75, 0.25], 0.75),
    ([0.5], 0.5),
    ([None, 0.5], None),
    ([0.5, None], None),
    ([0.0], 0.0),
)
def test_what_calls_have_cost_is_as_the_furthest_worker_has_it(
    costs: list[float | None], furthest: float | None
) -> None:
    workers = [WorkerPaid(usd={"s": {"u": cost}}) for cost in costs]

    assert furthest_paid(workers) == {"s": {"u": furthest}}


def test_remaining_time_is_zero_if_nothing_is_left_and_never_negative() -> None:
    assert seconds_left([], 0, TWELVE) == 0.0
    assert seconds_left([at(0), at(1)], 0, TWELVE) == 0.0
    assert seconds_left([at(5), at(6)], 3, TWELVE) == 0.0
