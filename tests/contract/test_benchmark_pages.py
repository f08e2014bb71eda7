"""Pages and files that benchmarks write: the history of runs, its schema, and the grid on paper."""

from __future__ import annotations

import importlib
import math
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ktdeval.stores.git_commands import Git
from ktdeval_grid.planning.plan_overrides import resolved_plan
from support.paths import REPOSITORY

BENCHMARKS = REPOSITORY / "benchmarks"


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Import a module of the benchmarks by name."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module


def report(values: ModuleType, day: int, **changes: object) -> Any:
    """A run on a made-up machine."""
    machine = values.Machine(
        system="Linux x86_64",
        processor="one",
        cores=2,
        memory_gib=8.0,
        load_before=0.1,
        load_after=1.5,
        python="3.11.7",
        packages={"numpy": "2.0.0"},
    )
    measured = (
        values.faster("kernels", "nine factors", [0.5, 0.5, 1], ("pandas", [1, 2, 1]), 4.0, "CPU"),
        values.dearer("calls", "episodes", [1.1], ("SDK", [1.0]), 1.2),
        values.growth("names", (300, 3000), (1.0, 10.0)),
        values.skipped("kernels", "simulator", "no Qlib"),
    )
    given = {
        "version": 1,
        "at": f"2026-01-{day:02d}T00:00:00Z",
        "revision": "abc",
        "suite_version": "0.1.0",
        "scale": "usual",
        "machine": machine,
        "figures": measured,
    }

    return values.Report(**{**given, **changes})


def test_a_ratio_says_how_much_better_and_a_cost_how_much_dearer(module: Any) -> None:
    nine, episodes, names, simulator = report(module("figures"), 1).figures
    assert (nine.ratio, nine.holds) == (2.0, False)
    # each turn's own ratio: 2, 4 and 1
    assert (nine.ours, nine.peer, nine.spread, nine.pairs) == (0.5, 1, (1.0, 4.0), 3)
    assert (episodes.ratio, episodes.holds) == (1.1, True)
    assert (names.ratio, names.holds) == (pytest.approx(1.0), True)
    assert (simulator.ratio, simulator.holds) == (None, None)


def test_two_sides_are_run_in_turns(module: Any) -> None:
    order: list[str] = []
    sides = {"a": lambda: order.append("a"), "b": lambda: order.append("b")}
    assert set(module("figures").in_turns(2, sides)) == {"a", "b"}
    assert order == ["a", "b", "a", "b"]


def test_the_page_is_that_of_the_kept_runs(module: Any) -> None:
    history = module("history")
    assert history.PAGE.read_text() == history.page(history.read())


def test_the_tables_of_the_grids_on_paper_follow_from_their_constants(module: Any) -> None:
    for path, text in module("scale").pages().items():
        assert path.read_text() == text


def test_the_grid_of_a_lab_is_the_plan_that_its_page_names(module: Any) -> None:
    scale = module("scale")
    lab = scale.load().lab
    plan = resolved_plan("ktd-fin", {"models": lab.models})
    names = ("models", "tasks", "windows")
    cells = math.prod(len(getattr(plan, name)) for name in names) * plan.seeds

    assert cells == lab.episodes == 6_000
    assert f"    ktdeval {' '.join(scale.lab_command(lab))}\n" in scale.LAB_PAGE.read_text()


# ---- this tree beside another commit


def test_a_ratio_above_the_limit_is_marked(module: Any) -> None:
    since = module("since_release")
    figures = module("figures")

    def line(ours: float) -> str:
        figure = figures.dearer("since", "judge", [ours, ours], ("base", [1.0, 2.0]), since.LIMIT)
        return str(since.figure_line(figure))

    assert line(1.2).endswith("0.90 × (0.60 to 1.20)  1.2 / 1.5 s")
    assert line(2.0).endswith("2 / 1.5 s  ABOVE 1.1: give the reason in a commit")
    skipped = figures.skipped("since", "judge", "base: ktdeval judge failed: no such command")
    assert since.figure_line(skipped).endswith(
        "skipped: base: ktdeval judge failed: no such command"
    )


def test_a_step_is_what_long_runs_take_beyond_short_ones(module: Any) -> None:
    since = module("since_release")
    steps = since.EPISODES * (since._STEPS - 1)
    assert since.steps_s([1.0 + steps, 2.0], [1.0, 2.0]) == [1.0, 0.0]


def test_the_commit_compared_with_is_the_named_one_else_the_last_release(
    module: Any, tmp_path: Path
) -> None:
    since = module("since_release")
    git = Git(tmp_path / ".git", tmp_path)
    assert since.base_of(git, None) is None  # no history

    def run(*words: str) -> str:
        who = ("-c", "user.name=x", "-c", "user.email=x@example.org")
        done = subprocess.run(
            ["git", *who, *words], cwd=tmp_path, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    run("init", "--quiet")
    assert since.base_of(git, None) is None
    for number in (1, 2):
        (tmp_path / "file").write_text(str(number))
        run("add", "file")
        run("commit", "--quiet", "-m", "x")
        if number == 1:
            run("tag", "v0.1.0")

    first, second = run("rev-parse", "HEAD~1"), run("rev-parse", "HEAD")
    assert since.base_of(git, None) == first
    assert since.base_of(git, "HEAD") == second
    assert since.base_of(git, "no-such-commit") is None
    assert (since.check_out(git, first, tmp_path / "tree") / "file").read_text() == "1"


def test_the_grid_on_paper_counts_as_a_hand_does(module: Any) -> None:
    scale = module("scale")
    grid = scale.Grid(scale.load())

    # 1,000 models × 4 masks × 3 modes × 10 windows × 5 seeds; the windows have 445 days
    assert grid.episodes == 600_000
    assert grid.steps == 1_000 * 4 * 3 * 5 * 445
    # a call per step in each mode
    assert grid.usage("low").calls == pytest.approx(1_000 * 4 * 5 * 445 * 3)
    assert scale.Usage(0, 1e6, 1e6, 0).usd(grid.constants.assumed) == pytest.approx(10.0)
    assert [scale.count(1_249_000.0), scale.count(24_964.0), scale.size(3.22e9)] == [
        "1.25 million",
        "25,000",
        "3.22 GB",
    ]
