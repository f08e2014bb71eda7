"""Time limits of calls are no part of a run's identity: a session of a run chooses its own, and runs
of versions that recorded them resume under the ids that they have.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from ktdeval.calls.stop_flag import StopSignal
from ktdeval.cards.system import System
from ktdeval.cli.main import main
from ktdeval.harness.call_params import TRANSPORT, CallParams, without_transport
from ktdeval.harness.chat_messages import ModelRequest, Reply
from ktdeval.registry import Plugins, load_plugins
from ktdeval.runner.execution.run import SharedRun, evaluate, prepare_run
from ktdeval.runner.models.run_events import run_id
from ktdeval.runner.models.timed_model import TimedModel
from ktdeval.runner.plans.config import RunConfig
from ktdeval.runner.plans.plan import as_first_recorded
from ktdeval.runner.records.run_folder import RunFolder
from support.runs.run_support import MASK_KEY


@pytest.fixture(scope="module")
def plugins() -> Plugins:
    return load_plugins()


def options(market: Path, out: Path | None, **changes: Any) -> RunConfig:
    """A run of two episodes."""
    given = {
        "model": "builtin/momentum",
        "tasks": ("blinded_open_research",),
        "windows": ("2024-03-01:2024-03-05", "2024-03-06:2024-03-08"),
        "data": str(market),
        "out": None if out is None else str(out),
        "mask_key": MASK_KEY,
        "quiet": True,
        **changes,
    }
    return RunConfig(**given)


def begin_as_earlier(config: RunConfig, folder: Path, plugins: Plugins) -> list[str]:
    """Begin a run as versions recorded it that counted the time limit; return the episodes' ids."""
    beside = replace(config, out=str(folder.with_name("beside")))
    with prepare_run(beside, plugins, StopSignal()) as run:
        manifest = run.folder.manifest

    earlier = tuple(as_first_recorded(spec, 120.0) for spec in manifest.specs)
    folder.mkdir(parents=True)
    RunFolder(folder, manifest).save_manifest(replace(manifest, specs=earlier))
    assert not {spec.id for spec in earlier} & {spec.id for spec in manifest.specs}

    return sorted(spec.id for spec in earlier)


def test_transport_parameters_are_the_time_limits_and_no_spec_records_them(
    market: Path, tmp_path: Path, plugins: Plugins
) -> None:
    assert set(TRANSPORT) == {each.name for each in fields(CallParams) if "timeout" in each.name}

    evaluate(options(market, tmp_path / "run", timeout_s=5.0), plugins)

    for spec in RunFolder.load(tmp_path / "run").manifest.specs:
        assert spec.call == {"temperature": 0.7, "max_output_tokens": 4096}
        assert spec.id == spec.identity


def test_another_time_limit_resumes_the_same_run(
    market: Path, tmp_path: Path, plugins: Plugins
) -> None:
    evaluate(options(market, tmp_path / "run", timeout_s=5.0), plugins)
    marks = sorted((tmp_path / "run").glob("episodes/*/episode.json"))
    before = [mark.stat().st_mtime_ns for mark in marks]

    result = evaluate(
        options(market, tmp_path / "run", timeout_s=9.0, first_timeout_s=70.0), plugins
    )

    assert result.failed == ()
    assert [mark.stat().st_mtime_ns for mark in marks] == before


@pytest.mark.parametrize("now_s", [120.0, 900.0])
def test_a_run_recorded_with_its_time_limit_resumes_under_its_ids_and_verifies(
    market: Path, tmp_path: Path, plugins: Plugins, now_s: float
) -> None:
    folder = tmp_path / "run"
    earlier = begin_as_earlier(options(market, folder), folder, plugins)
    evaluate(options(market, folder), plugins)
    shutil.rmtree(folder / "episodes" / earlier[0])

    result = evaluate(options(market, folder, timeout_s=now_s), plugins)

    assert result.failed == ()
    assert sorted(path.name for path in (folder / "episodes").iterdir()) == earlier
    run = RunFolder.load(folder)
    assert sorted(spec.id for spec in run.manifest.specs) == earlier
    for card in result.cards:
        assert json.loads(card.read_text())["call"]["timeout_s"] == 120.0  # as it was recorded

    assert main(["card", "verify", str(folder)]) == 0


def test_a_run_without_out_resumes_in_the_folder_that_an_earlier_version_named(
    market: Path, tmp_path: Path, plugins: Plugins, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = options(market, None)
    first = evaluate(config, plugins).folder
    assert evaluate(replace(config, timeout_s=7.0), plugins).folder == first

    specs = RunFolder.load(first).manifest.specs
    digest = run_id([as_first_recorded(spec, 120.0) for spec in specs])[:8]
    earlier = first.with_name(f"{first.name[:-8]}{digest}")
    shutil.rmtree(first)
    begin_as_earlier(config, earlier, plugins)

    assert evaluate(config, plugins).folder == earlier


def test_a_part_of_a_grid_keeps_the_ids_that_the_grid_has(
    market: Path, tmp_path: Path, plugins: Plugins
) -> None:
    config = options(market, tmp_path / "part", timeout_s=30.0)
    with prepare_run(config, plugins, StopSignal()) as run:
        new = {spec.id for spec in run.plan.specs}
        earlier = {as_first_recorded(spec, 30.0).id for spec in run.plan.specs}

    config = replace(config, out=str(tmp_path / "other"))
    for ids in (new, earlier):
        shared = SharedRun(episodes=ids)
        with prepare_run(
            replace(config, out=f"{config.out}{len(ids & new)}"), plugins, StopSignal(), shared
        ) as run:
            assert {spec.id for spec in run.plan.specs} == ids


def test_cards_of_both_forms_are_of_one_system(
    market: Path, tmp_path: Path, plugins: Plugins
) -> None:
    with prepare_run(options(market, tmp_path / "run"), plugins, StopSignal()) as run:
        spec = run.plan.specs[0]

    earlier = as_first_recorded(spec, 120.0)

    assert earlier.id != spec.id
    assert earlier.identity == spec.id
    assert System.of_spec(earlier) == System.of_spec(spec)
    assert without_transport(earlier.call) == spec.call


def test_each_call_has_the_limits_of_its_session() -> None:
    asked = []

    class Model:
        def reply(self, request: ModelRequest) -> Reply:
            asked.append(request.params)
            return Reply("yes")

    config = RunConfig(model="mine/m", tasks=("t",), timeout_s=3.0)
    TimedModel.of(Model(), config).reply(ModelRequest((), params=CallParams(timeout_s=120.0)))

    assert asked == [CallParams(timeout_s=3.0)]
    assert asked[0].first_limit_s == 15.0
