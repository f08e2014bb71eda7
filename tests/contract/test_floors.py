"""What holds whichever packages are there: `.ci/floors` deletes each one, and runs this on the rest."""

from __future__ import annotations

import re
import tomllib
from importlib.util import find_spec
from itertools import chain
from pathlib import Path

import pytest

from ktdeval.registry import load_plugins
from ktdeval.testing import Terminal, not_empty
from support.floors import folders, needs, without
from support.paths import REPOSITORY
from support.runs.run_support import TASK, WINDOW

EXAMPLE = REPOSITORY / "examples/ktdeval-example-plugin/src/ktdeval_example"
PROJECT = (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8")


# ---- the table


def test_each_package_that_may_be_deleted_is_in_the_table() -> None:
    table = needs()
    needed = set(chain.from_iterable(table.values()))
    assert set(folders()) <= set(table)
    assert needed <= set(table)


@pytest.mark.needs("ktdeval_qfinzero", "ktdeval_qlib")
def test_nothing_of_a_deleted_package_is_left_in_the_project() -> None:
    rest = tomllib.loads(without(PROJECT, ["ktdeval_qfinzero", "ktdeval_qlib"]))
    before = tomllib.loads(PROJECT)
    linter = rest["tool"]["importlinter"]

    assert not any(name in str(rest) for name in ("ktdeval_qfinzero", "ktdeval_qlib"))

    entries = before["project"]["entry-points"]["ktdeval"].keys()
    assert entries - rest["project"]["entry-points"]["ktdeval"].keys() == {"qfinzero", "qlib"}
    assert [each["id"] for each in before["tool"]["importlinter"]["contracts"]] == [
        *(each["id"] for each in linter["contracts"]),
        "extras",
    ]
    assert len(linter["root_packages"]) == len(before["tool"]["importlinter"]["root_packages"]) - 2


# ---- what is there works


def test_help_and_the_list_of_commands_name_each_command(terminal: Terminal) -> None:
    commands = load_plugins().specs("commands")
    listed = terminal.report("list", "commands")
    shown = {command["name"] for command in listed}
    words = {name.split()[0] for name in commands}

    assert words <= shown

    help_page = terminal.text("--help")
    assert [word for word in words if not re.search(rf"  .*\b{word}\b", help_page)] == []


@pytest.mark.parametrize("kind", ["tasks", "models", "agents", "metrics", "venues", "data"])
def test_each_name_is_listed(kind: str, terminal: Terminal) -> None:
    names = set(load_plugins().specs(kind))
    assert names <= {each["name"] for each in terminal.report("list", kind)}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["models", "agents", "metrics"])
def test_each_name_is_explained(kind: str, terminal: Terminal) -> None:
    for name in not_empty(load_plugins().specs(kind)):
        assert terminal.text("list", kind, "show", name)


def test_each_task_is_made() -> None:
    plugins = load_plugins()
    for name in not_empty(plugins.specs("tasks")):
        assert plugins.make_task(name).name == name


@pytest.mark.slow
def test_a_run_without_a_key_is_scored_and_verified(
    terminal: Terminal, market: Path, tmp_path: Path
) -> None:
    plugin = ("--plugin", EXAMPLE)
    run = ("run", "--model", "example/top_factor", "--tasks", TASK, "--data", market)
    window = ("--windows", WINDOW, "--limit", 2, "--quiet", "--out", tmp_path / "run")
    terminal.out(*run, *window, *plugin)

    assert "verified" in terminal.out("card", "verify", tmp_path / "run", *plugin)


# ---- what does less without a package says so


without_models = pytest.mark.skipif(
    find_spec("ktdeval_models") is not None,
    reason="is tried by .ci/floors, where ktdeval_models is deleted",
)


@without_models
@pytest.mark.needs("ktdeval_compare")
def test_the_demo_says_which_model_it_lacks_before_it_prints_anything(terminal: Terminal) -> None:
    assert "unknown provider 'builtin'" in terminal.refusal("demo")


@without_models
@pytest.mark.needs("ktdeval_board")
def test_a_board_begins_without_the_default_baselines_that_nobody_offers(
    terminal: Terminal, market: Path, tmp_path: Path
) -> None:
    names = ("--name", "b", "--title", "B", "--contact", "you@example.org", "--tasks", TASK)
    board = ("init", tmp_path / "b", *names, "--data", market, "--windows", WINDOW)
    code, out, err = terminal.call("leaderboard", *board)

    assert code == 0, err
    assert "unknown provider 'builtin'" in out + err
    assert "builtin/" not in (tmp_path / "b" / "board.yaml").read_text(encoding="utf-8")
