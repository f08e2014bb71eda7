"""Control of a grid: what each command does to it, and commands at once."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from ktdeval.errors import StoreError
from ktdeval.stores import LocalStore
from ktdeval_grid.state.grid_control import (
    Change,
    Control,
    change_control,
    control_in_force,
    drop_model,
    read_control,
    requeue_units,
    restore_model,
    set_concurrency,
    set_paused,
)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([set_paused(True)], Control(paused=True)),
        ([set_paused(True), set_paused(False)], Control()),
        ([set_concurrency(8), set_concurrency(3)], Control(concurrency=3)),
        ([drop_model("a"), drop_model("b"), drop_model("a")], Control(dropped=("a", "b"))),
        ([drop_model("a"), drop_model("b"), restore_model("a")], Control(dropped=("b",))),
        ([requeue_units(("u", "v")), requeue_units(("u",))], Control(requeued={"u": 2, "v": 1})),
    ],
)
def test_a_command_changes_its_own_field_alone(changes: list[Change], expected: Control) -> None:
    control = Control()
    for change in changes:
        control = change(control)

    assert control == expected


def test_a_unit_that_failed_is_tried_again_once_for_each_request() -> None:
    control = Control(requeued={"u": 1})
    assert control.may_try("u", 0)
    assert not control.may_try("u", 1)  # it has failed again since
    assert not control.may_try("v", 0)


def test_a_grid_without_the_file_runs_as_planned(tmp_path: Path) -> None:
    assert read_control(LocalStore(tmp_path)) == Control()


def test_no_command_of_several_at_once_is_lost(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    changes: list[Change] = [requeue_units((f"u{number % 3}",)) for number in range(12)]
    changes += [drop_model("a"), set_paused(True), set_concurrency(5)]
    threads = [threading.Thread(target=change_control, args=(store, change)) for change in changes]

    for thread in threads:
        thread.start()

    for thread in threads:
        thread.join()

    control = read_control(store)

    assert control.requeued == {"u0": 4, "u1": 4, "u2": 4}
    assert (control.dropped, control.paused, control.concurrency) == (("a",), True, 5)
    assert control.serial == len(changes)


def test_a_file_written_by_hand_is_read_and_kept_by_the_next_command(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    change_control(store, drop_model("a"))
    (tmp_path / "control.json").write_text('{"paused": true, "serial": 1}')
    assert change_control(store, set_concurrency(2)) == Control(
        paused=True, concurrency=2, serial=2
    )


@pytest.mark.parametrize("text", ["", "{", '{"paused": tru', '{"concurrency": 0}', "[]", "\udcff"])
def test_a_malformed_file_keeps_the_last_good_state_with_a_warning(
    tmp_path: Path, text: str
) -> None:
    store = LocalStore(tmp_path)
    change_control(store, drop_model("a"))
    by_hand = Control(paused=True, dropped=("b",), serial=1)
    (tmp_path / "control.json").write_bytes(text.encode("utf-8", "surrogateescape"))

    seen = control_in_force(store, by_hand)  # by one that has seen what the hand wrote before

    assert seen.control == by_hand
    assert "control.json" in seen.warning
    assert seen.warning.endswith("fix it, or delete it; until then the state before it stays")

    fresh = control_in_force(store)
    assert fresh.control == Control(dropped=("a",), serial=1)
    assert fresh.warning == seen.warning

    (tmp_path / "control.json").write_text('{"concurrency": 4, "serial": 1}')
    assert control_in_force(store, by_hand).control == Control(concurrency=4, serial=1)
    assert control_in_force(store, by_hand).warning == ""


def test_command_does_not_overwrite_an_unreadable_hand_edited_file(
    tmp_path: Path,
) -> None:
    store = LocalStore(tmp_path)
    (tmp_path / "control.json").write_text('{"concurrency": 0}')
    with pytest.raises(StoreError, match="fix it, or delete it"):
        change_control(store, set_paused(True))

    assert (tmp_path / "control.json").read_text() == '{"concurrency": 0}'
