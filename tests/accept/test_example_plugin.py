"""The example package, installed with pip as a stranger would, keeps the contract and runs; the kit
finds what breaks it.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ktdeval import testing
from ktdeval.errors import ModelError
from ktdeval.harness import ModelRequest, Reply, ToolCall
from ktdeval.market import MarketSnapshot
from ktdeval.registry import load_plugins
from ktdeval.runner.plans.plan import target_task_of
from ktdeval.stats import MetricValue
from ktdeval.task_api.scoring import is_scoring
from ktdeval.testing import ConformanceError, random_snapshot, tiny_snapshot
from ktdeval.testing.ledger_fixtures import sample_ledgers, step_record
from ktdeval_data.params import TwinParams as ArenaParams, ViewParams
from ktdeval_data.synthetic_us_crypto import make_twin as make_arena
from ktdeval_investorbench.markets import make_twin
from ktdeval_investorbench.provider_params import InvestorMarketParams
from support.paths import REPOSITORY
from support.runs.run_support import card_of

EXAMPLE = REPOSITORY / "examples" / "ktdeval-example-plugin"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example plugin, installed into a folder of its own."""
    target = tmp_path_factory.mktemp("site")
    options = "--quiet --no-deps --no-build-isolation --disable-pip-version-check --no-index"
    done = python(Path(), f"-m pip install {options} --target {target} {EXAMPLE}")

    assert done.returncode == 0, done.stderr

    return target


def python(site: Path, words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """A Python process that sees the installed example."""
    environment = {**os.environ, "PYTHONPATH": str(site)}
    command = [sys.executable, *words.split()]
    return subprocess.run(
        command, capture_output=True, text=True, env=environment, cwd=cwd, check=False
    )


@pytest.mark.exhaustive
def test_the_installed_example_is_found_with_all_it_offers(site: Path) -> None:
    done = python(site, "-m ktdeval list plugins --json")
    (entry,) = (entry for entry in json.loads(done.stdout) if entry["name"] == "ktdeval_example")

    assert done.stderr == ""
    assert (entry["distribution"], entry["version"]) == ("ktdeval-example-plugin", "0.1.0")
    offers = "tasks:example_two_weeks models:example/top_factor metrics:example_win_rate"
    assert entry["offers"] == offers.split()

    folder = EXAMPLE / "src" / "ktdeval_example"
    from_folder = python(Path(), f"-m ktdeval list tasks --all --plugin {folder}")

    assert "example_two_weeks" in from_folder.stdout


@pytest.mark.exhaustive
def test_its_task_is_the_extended_one_but_for_what_it_changes(site: Path) -> None:
    own, base = (
        json.loads(python(site, f"-m ktdeval list tasks {name} --json").stdout)
        for name in ("example_two_weeks", "blinded_open_research")
    )
    changed = {key for key in own if own[key] != base.get(key)}
    said = "name version plugin family windows default_windows harness metrics"

    assert changed == set(said.split())
    assert own["harness"] == {**base["harness"], "max_candidates": 10, "max_tool_calls": 4}


@pytest.mark.exhaustive
def test_its_own_tests_pass_and_its_model_runs_on_its_task_with_its_metric(
    site: Path, tmp_path: Path
) -> None:
    tests = EXAMPLE / "tests"
    alone = f"--rootdir {tests} --confcutdir {tests} -c {os.devnull}"
    done = python(site, f"-m pytest -q -p no:cacheprovider {alone} {tests}")

    assert done.returncode == 0, done.stdout + done.stderr

    model = "--model example/top_factor --model-args names=3"
    run = f"-m ktdeval {model} --tasks example_two_weeks --out run --quiet"
    done = python(site, run, cwd=tmp_path)

    assert done.returncode == 0, done.stderr

    card = card_of(tmp_path / "run", "example_two_weeks")
    assert "example_win_rate" in json.dumps(card["metrics"])
    assert "never traded" not in card["labels"]
    assert card["coverage"]["steps_decided"] == card["coverage"]["steps_planned"]


# ---- the conformance kit, on the built-ins and on what is wrong


NEEDED_ARGUMENTS = {"builtin/linear_factor": {"coefficients": "MOM_12_1:0.02 RV_60:-0.1"}}


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "name", ["ktdeval_ktdfin", "ktdeval_models", "ktdeval_builtin", "ktdeval_data"]
)
def test_built_in_plugins_fulfil_the_contract(name: str) -> None:
    testing.check_plugin(name)


@pytest.mark.exhaustive
def test_built_in_models_fulfil_the_contract(tmp_path: Path) -> None:
    """But for those that need files of a training, voters, an environment, people, or decisions:
    the tests of their packages have those.
    """
    elsewhere = {"declared", "elected", "gym", "human", "planted", "qlib", "rl"}
    plugins = load_plugins()
    script = tmp_path / "script.yaml"
    script.write_text("otherwise: No trade today.\n")
    needed = {**NEEDED_ARGUMENTS, "builtin/script": {"file": str(script)}}

    for model in plugins.specs("models"):
        family, slash, _ = model.partition("/")
        if slash and family not in elsewhere:
            testing.check_model(plugins.make_model(model, needed.get(model, {})))


@pytest.mark.exhaustive
def test_built_in_metrics_fulfil_the_contract() -> None:
    plugins = load_plugins()
    for metric in plugins.specs("metrics"):
        testing.check_metric(plugins.make_metric(metric))


@cache
def own_market(family: str) -> tuple[MarketSnapshot, ...]:
    """The market of a family of tasks that has one of its own."""
    match family:
        case "ama":
            return (make_arena("arena", ArenaParams(first="2025-04-01", last="2025-10-31")),)
        case "deepfund":
            return (make_arena("deepfund", ArenaParams(first="2024-09-02", last="2025-06-30")),)
        case "investorbench":
            return (make_twin(InvestorMarketParams()),)
        case "views":
            return (make_arena("views", ViewParams()),)

    return ()


@pytest.mark.sampled(10)
@pytest.mark.parametrize("name", list(load_plugins().specs("tasks")))
def test_built_in_tasks_fulfil_the_contract(name: str) -> None:
    plugins = load_plugins()
    task = plugins.make_task(name)
    if is_scoring(task):
        testing.check_scoring_task(task, target_task_of(task, plugins))
    elif "coins" in name:
        testing.check_task(task, make_arena("crypto", ArenaParams()))
    else:
        testing.check_task(task, *own_market(name.partition("_")[0]))


class Chatty:
    """A scoring task whose samples differ from time to time."""

    def __init__(self, task: Any) -> None:
        self._task, self._asked = task, itertools.count()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._task, name)

    def samples(self, spec: Any, *others: Any) -> Any:
        return self._task.samples(replace(spec, seed=next(self._asked)), *others)


def test_a_scoring_task_whose_samples_are_not_pure_is_found() -> None:
    plugins = load_plugins()
    task = plugins.make_task("deanon_probe")
    with pytest.raises(ConformanceError, match="sample 0: two sample sets of one spec differ"):
        testing.check_scoring_task(Chatty(task), target_task_of(task, plugins))  # type: ignore[arg-type]


class Scripted:
    """A model that answers with what it is given, in turn."""

    def __init__(self, *replies: Any) -> None:
        self.replies = list(replies)

    def reply(self, request: ModelRequest) -> Reply:
        answer = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if isinstance(answer, Exception):
            raise answer

        return answer


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Scripted(Reply("a"), Reply("b")), "equal requests gave different replies"),
        (Scripted("text"), "the model gave 'text', which is not a ktdeval.api.Reply"),
        (Scripted(Reply("a", finish_reason="done")), "reply ended with 'done', expected one of"),
        (Scripted(Reply(tool_calls=(ToolCall("", "x", "{}"),))), "ids of tool calls are empty"),
        (
            Scripted(Reply(tool_calls=(ToolCall("a", "x", {}),))),
            "arguments of a ToolCall are JSON text",
        ),
        (
            Scripted(Reply(usage={"input_tokens": 3})),
            "has a usage that is not a ktdeval.harness.Usage",
        ),  # type: ignore[arg-type]
        (Scripted(ModelError("Rate Limited", "slow down")), "may have only the letters"),
    ],
)
def test_the_kit_finds_defects_of_a_model(model: Scripted, message: str) -> None:
    with pytest.raises(ConformanceError, match=message):
        testing.check_model(model)


class BadMetric:
    name = "bad"
    formula = "bad/1: 0"
    unit = "fraction"
    better = "higher"
    source = "here"
    headline = False
    range: Any = (0.0, None)

    def __init__(self, compute: Callable[..., Any] | None = None, **wrong: Any) -> None:
        self.compute = compute or undefined
        self.__dict__.update(wrong)


def undefined(*_: object) -> MetricValue:
    return MetricValue(None, 0, "never defined")


def count_failures(ledger: Any, *_: object) -> MetricValue:
    ledger.steps[0].failures["x"] = ledger.steps[0].failures.get("x", 0) + 1
    return undefined()


COUNT = itertools.count()


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        (BadMetric(lambda *_: 0.0), "gave float"),
        (
            BadMetric(lambda *_: MetricValue(1.0, 1, detail={"x": float("nan")})),
            "detail: not strict JSON",
        ),
        (BadMetric(lambda *_: MetricValue(-0.5, 1)), "-0.5 lies outside its range 0.0 … inf"),
        (
            BadMetric(lambda *_: MetricValue(float(next(COUNT)), 1)),
            "a second call gave another value",
        ),
        (BadMetric(count_failures), "changed the ledger"),
        (BadMetric(source=""), "metric bad: source of BadMetric must be text that is not empty"),
        (BadMetric(unit=" "), "metric bad: unit of BadMetric must be text that is not empty"),
        (BadMetric(range=None), "range of BadMetric must be a pair"),
    ],
)
def test_the_kit_finds_defects_of_a_metric(metric: Any, message: str) -> None:
    with pytest.raises(ConformanceError, match=message):
        testing.check_metric(metric)


def test_the_kit_finds_a_task_that_looks_ahead() -> None:
    task = load_plugins().make_task("blinded_fixed_candidate")

    class Peeking:
        def __getattr__(self, name: str) -> Any:
            return getattr(task, name)

        def scene(self, spec: Any, snapshot: Any) -> Any:
            scene = task.scene(spec, snapshot)

            class PeekingScene:
                lens = scene.lens

                def observe(self, step: int, view: Any, account: Any, last: Any) -> Any:
                    seen = scene.observe(step, view, account, last)
                    later = f"{snapshot.close[-1, 0] > 8}{snapshot.volume[-1, 0] > 10}"
                    return replace(seen, day=f"{seen.day}\n{later}")

            return PeekingScene()

    with pytest.raises(ConformanceError, match="the observation changes when later days do"):
        testing.check_task(Peeking())  # type: ignore[arg-type]


def test_markets_and_ledgers_of_the_kit_match_their_description() -> None:
    market = tiny_snapshot({"609001.SH": [10.0, 10.5, None], "309001.SZ": [5.0, 5.0, 5.0]})
    assert market.codes == ("309001.SZ", "609001.SH")
    assert np.isnan(market.close[2, 1])
    assert market.volume[2, 1] == 0
    assert np.array_equal(random_snapshot(3).close, random_snapshot(3).close, equal_nan=True)
    assert not np.array_equal(random_snapshot(3).close, random_snapshot(4).close, equal_nan=True)

    ledgers = sample_ledgers(random_snapshot()).values()

    for step in itertools.chain.from_iterable(ledger.steps for ledger in ledgers):
        assert step.nav_minor == step.cash_minor + step.holdings_minor
        assert step.holdings_minor == sum(position.value_minor for position in step.positions)
        assert step.decided_on < step.filled_on


def test_a_step_record_has_no_field_of_its_own_invention() -> None:
    with pytest.raises(TypeError, match=r"step record: .*'nave_minor'"):
        step_record(random_snapshot(), 0, 300, nave_minor=1)
