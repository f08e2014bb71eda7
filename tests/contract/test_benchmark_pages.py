"""Pages and files that benchmarks write: the history of runs, its schema, and the grid on paper."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import pytest

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


def test_the_tables_of_the_grid_on_paper_follow_from_its_constants(module: Any) -> None:
    scale = module("scale")
    assert scale.PAGE.read_text() == scale.page()


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
