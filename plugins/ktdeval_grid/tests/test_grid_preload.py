"""What a launch loads before it forks workers, and where it does not fork."""

from __future__ import annotations

import sys

import pytest

from grid_store import small_plan
from ktdeval.cli import forked_command
from ktdeval.runner.plans import data_source
from ktdeval_grid.launch import preload as preloading
from ktdeval_grid.launch.preload import preload

pytestmark = pytest.mark.slow


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Threads that the process is to have at each look, the last one from then on."""
    counts = [1]

    def count() -> int:
        return counts.pop(0) if len(counts) > 1 else counts[0]

    monkeypatch.setattr(forked_command.threading, "active_count", count)
    return counts


@pytest.mark.exhaustive
@pytest.mark.skipif(sys.platform != "linux", reason="forks are used on Linux alone")
def test_a_launch_on_this_machine_loads_the_market_and_may_fork(threads: list[int]) -> None:
    data_source._loaded_snapshot.cache_clear()

    assert preload(small_plan(), "local")
    assert data_source._loaded_snapshot.cache_info().currsize == 1


def test_a_launch_elsewhere_loads_nothing(
    threads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preloading, "open_plugins", None)

    assert not preload(small_plan(), "ray")


def test_a_process_with_a_second_thread_loads_nothing(
    threads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    threads[:] = [2]
    monkeypatch.setattr(preloading, "open_plugins", None)

    assert not preload(small_plan(), "local")


@pytest.mark.exhaustive
def test_workers_are_no_forks_where_a_plugin_has_begun_a_thread(threads: list[int]) -> None:
    threads[:] = [1, 2]

    assert not preload(small_plan(), "local")


@pytest.mark.exhaustive
def test_a_plan_that_can_not_be_loaded_is_left_to_the_estimate(threads: list[int]) -> None:
    assert preload(small_plan(tasks=["no_such_task"]), "local") is (sys.platform == "linux")
