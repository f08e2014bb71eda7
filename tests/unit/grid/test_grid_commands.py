"""The command line of grids, on a store made by hand: help, status, ctl, plans, completion."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest

import ktdeval.runner
from grid_store import HandMade, done, failure, record_of, small_plan, unit_id
from ktdeval_grid.control import read_control
from ktdeval_grid.estimate_types import SCENARIOS
from ktdeval_grid.group import COMMANDS, grid as group
from ktdeval_grid.plan_options import _AGENTS, _MODELS, _PLAN, _PRUNE, _TASKS
from terminal import Terminal


@pytest.fixture
def grid(tmp_path: Path) -> HandMade:
    made = HandMade(tmp_path / "grid", record_of(small_plan()))
    made.finish(done(unit_id(0, 0)))
    made.fail(failure(unit_id(0, 1), "the server is down"))
    made.fail(failure(unit_id(1, 2), "the server is down"))
    return made


def place(grid: HandMade) -> str:
    return grid.store.place


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_shows_an_example(name: str, terminal: Terminal) -> None:
    words = ["grid", name, "--help"]
    if name == "ctl":
        words = ["grid", "ctl", "somewhere", "--help"]
    text = terminal.out(*words)
    assert "ktdeval grid " in text.partition("\n")[2]


@pytest.mark.parametrize("name", ["pause", "resume", "concurrency", "drop", "restore", "requeue"])
def test_every_way_to_steer_shows_an_example(name: str) -> None:
    ctl = group.load("ctl")
    assert isinstance(ctl, click.Group)
    assert f"ktdeval grid ctl DIR {name}" in str(ctl.commands[name].help)


def test_help_of_the_group_has_the_options_of_a_launch(terminal: Terminal) -> None:
    text = terminal.text("grid", "--help")
    assert "--models" in text
    assert "--detach" in text
    assert "forecast" not in text


def test_status_is_printed_as_text_and_as_json(grid: HandMade, terminal: Terminal) -> None:
    assert "small: 1 of 8 episodes done, 2 failed" in terminal.text("grid", "status", place(grid))
    report = json.loads(terminal.text("grid", "status", place(grid), "--json"))
    assert (report["total"]["done"], report["total"]["failed"]) == (1, 2)
    assert report["failures"][0]["units"] == [unit_id(0, 1), unit_id(1, 2)]


def test_steering_changes_the_control_of_the_grid(grid: HandMade, terminal: Terminal) -> None:
    for words in (
        ("pause",),
        ("concurrency", 3),
        ("drop", "builtin/reversal"),
        ("requeue", "failed"),
    ):
        terminal.text("grid", "ctl", place(grid), *words)
    control = read_control(grid.store)
    assert (control.paused, control.concurrency) == (True, 3)
    assert control.dropped == ("builtin-reversal",)
    assert control.requeued == {unit_id(0, 1): 1, unit_id(1, 2): 1}

    terminal.text("grid", "ctl", place(grid), "resume")
    terminal.text("grid", "ctl", place(grid), "restore", "builtin-reversal")
    terminal.text("grid", "ctl", place(grid), "requeue", "W1 seed 1")
    control = read_control(grid.store)
    assert (control.paused, control.dropped) == (False, ())
    assert control.requeued == {unit_id(0, 1): 2, unit_id(1, 2): 1}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("drop", "builtin/momentu"),
            "no model 'builtin/momentu'; did you mean 'builtin-momentum'",
        ),
        (("requeue", "W9"), "W9: no failed episode is called so"),
        (("concurrency", "0"), "0 is not in the range"),
    ],
)
def test_steering_by_an_unknown_name_is_refused(
    words: tuple[str, ...], message: str, grid: HandMade, terminal: Terminal
) -> None:
    assert message in terminal.refusal("grid", "ctl", place(grid), *words)


def test_a_folder_without_a_grid_can_not_be_steered(tmp_path: Path, terminal: Terminal) -> None:
    assert "no grid here" in terminal.refusal("grid", "ctl", tmp_path, "pause")
    assert "no grid here" in terminal.refusal("grid", "status", tmp_path)


def test_a_shipped_plan_is_printed_to_be_changed(terminal: Terminal) -> None:
    assert "ktd-fin-appendix-j" in terminal.text("grid", "plans")
    assert terminal.text("grid", "plans", "ktd-fin").startswith("# KTD-Fin")
    assert "did you mean 'ktd-fin'" in terminal.refusal("grid", "plans", "ktdfin")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("ktdfin",), "no such file, and no plan of this name; did you mean 'ktd-fin'"),
        (("--models", "a/b"), "a grid needs a plan"),
        (("--models", "a/b", "--tasks", "t"), "--out: name the folder of the grid"),
        (("ktd-fin", "--only", "failed", "--out", "new"), "no grid is there yet"),
    ],
)
def test_a_launch_that_can_not_begin_says_why(
    words: tuple[str, ...],
    message: str,
    terminal: Terminal,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert message in terminal.refusal("grid", *words)


@pytest.mark.parametrize(
    ("option", "text", "found"),
    [
        (_MODELS, "builtin/mom", "builtin/momentum"),
        (_MODELS, "builtin/random,open", "builtin/random,openai/"),
        (_AGENTS, "rea", "react"),
        (_TASKS, "blinded_open", "blinded_open_research"),
        (_PRUNE, "inf", "informative"),
        (_PLAN, "ktd", "ktd-fin"),
    ],
)
def test_names_are_completed(option: object, text: str, found: str) -> None:
    @option  # type: ignore[operator]
    def body() -> None: ...

    command = click.command()(body)
    (parameter,) = command.params
    items = parameter.shell_complete(click.Context(command), text)
    assert found in [item.value for item in items]


def test_scenarios_are_those_of_a_run() -> None:
    assert ktdeval.runner.SCENARIOS == SCENARIOS
