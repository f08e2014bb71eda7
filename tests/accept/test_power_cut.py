"""Power cuts at any call of the system in whole runs of models that cost nothing: no finished episode
is lost, and the run that is resumed has the records of one that nothing cut.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from ktdeval.hookspecs import hookimpl
from ktdeval.registry import Plugins, load_plugins
from ktdeval.runner import Event, RunConfig, evaluate
from ktdeval.task_api.events import EpisodeFinished
from support.runs.power_cut import Disk
from support.runs.run_support import MASK_KEY, assert_same

DAYS = 8
GROUP = 3  # steps of a group, so that an episode has several


@dataclass
class _Finished:
    """Episodes that a run said were finished."""

    ids: set[str] = field(default_factory=set)

    @hookimpl
    def ktdeval_event(self, event: Event) -> None:
        if isinstance(event, EpisodeFinished):
            self.ids.add(event.spec.id)


@dataclass(frozen=True)
class Cut:
    """What a cut left: a run folder, and the episodes that were said to be finished before it."""

    run: Path
    finished: frozenset[str]


@pytest.fixture(autouse=True)
def _small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ktdeval.runner.records.run_folder.STEPS_A_GROUP", GROUP)


@pytest.fixture
def config(market: Path, tmp_path: Path) -> RunConfig:
    return RunConfig(
        model="builtin/random",
        tasks=("blinded_fixed_candidate",),
        data=str(market),
        windows=("2024-03-01:2024-03-29",),
        limit=DAYS,
        seeds=2,
        mask_key=MASK_KEY,
        out=str(tmp_path / "whole"),
    )


def cut_run(config: RunConfig, run: Path, plugins: Plugins, cuts: set[int]) -> list[Cut]:
    """Run a config in a folder; return what each cut leaves, with the folders `RUN-cut-NUMBER`."""
    finished = _Finished()
    plugins.register_observer(finished)
    left: list[Cut] = []

    def taken() -> Path:
        folder = run.with_name(f"{run.name}-cut-{len(left)}")
        left.append(Cut(folder, frozenset(finished.ids)))
        return folder

    run.mkdir(exist_ok=True)
    disk = Disk(run, random.Random(run.name))
    with disk.watched(cuts, taken):
        assert not evaluate(replace(config, out=str(run)), plugins).failed

    disk.close()
    return left


def calls_of(config: RunConfig, run: Path, plugins: Plugins) -> int:
    """Make a whole run; return how many calls of the system it has at which the power can fail."""
    for _ in range(2):  # the first one fills caches
        shutil.rmtree(run, ignore_errors=True)
        run.mkdir()
        disk = Disk(run, random.Random(0))
        with disk.watched():
            assert not evaluate(replace(config, out=str(run)), plugins).failed

        disk.close()

    return disk.calls


def marks(run: Path) -> set[str]:
    return {path.parent.name for path in run.glob("episodes/*/episode.json")}


def resumed(config: RunConfig, cuts: list[Cut], plugins: Plugins) -> Iterator[Path]:
    """Resume a run after each cut; yield its folder."""
    for cut in cuts:
        assert cut.finished <= marks(cut.run)
        assert not evaluate(replace(config, out=str(cut.run)), plugins).failed
        yield cut.run
        shutil.rmtree(cut.run)


@pytest.mark.exhaustive
def test_records_after_two_hundred_power_cuts_equal_an_undisturbed_run(
    config: RunConfig, tmp_path: Path
) -> None:
    plugins = load_plugins()
    whole = tmp_path / "whole"
    calls = calls_of(config, whole, plugins)
    chance = random.Random(20261127)
    journals = 0
    resumptions = 0

    for number in range(8):
        cuts = cut_run(
            config, tmp_path / f"run-{number}", load_plugins(), set(chance.sample(range(calls), 25))
        )
        assert len(cuts) == 25
        for cut in cuts:
            journals += any(cut.run.glob("episodes/*/journal.jsonl"))

        for run in resumed(config, cuts, plugins):
            resumptions += 1
            assert_same(run, whole)

    assert resumptions == 200
    assert journals >= 50  # the cuts lie in episodes, too


@pytest.mark.slow
def test_cuts_of_a_run_that_resumes_after_a_cut_lose_nothing_either(
    config: RunConfig, tmp_path: Path
) -> None:
    plugins = load_plugins()
    whole = tmp_path / "whole"
    calls = calls_of(config, whole, plugins)
    chance = random.Random(1)

    for first in cut_run(config, tmp_path / "run", plugins, set(chance.sample(range(calls), 5))):
        cuts = cut_run(config, first.run, load_plugins(), set(chance.sample(range(calls // 2), 4)))
        for run in resumed(config, cuts, plugins):
            assert_same(run, whole)


@pytest.mark.slow
def test_a_disk_that_ignores_syncs_loses_finished_episodes(
    config: RunConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # so that the tests above would see it
    monkeypatch.setattr(Disk, "_take", lambda *_: None)
    cuts = cut_run(config, tmp_path / "run", load_plugins(), set(range(0, 400, 20)))

    assert any(not cut.finished <= marks(cut.run) for cut in cuts)
