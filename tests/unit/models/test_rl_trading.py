"""Environment, command and model of trained policies, without the libraries that train them."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ktdeval import errors
from ktdeval.cli.main import main
from ktdeval.config import RunConfig
from ktdeval.contracts import Window
from ktdeval.harness import ModelRequest, Reply
from ktdeval.market import MarketSnapshot, save_snapshot
from ktdeval.registry import load_plugins
from ktdeval.runner import RunFolder, evaluate
from ktdeval_investorbench.params import TwinParams
from ktdeval_investorbench.twin import make_twin
from ktdeval_models.rl import model as model_module
from ktdeval_models.rl.environment import TradingSimulation
from ktdeval_models.rl.policy import DECISIONS, read_policy
from rl_policies import drawn_policy
from tables import on_each_row

TASK = "investorbench_msft_history"
STEPS = 25


@pytest.fixture(scope="module")
def market(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, MarketSnapshot]:
    folder = tmp_path_factory.mktemp("market") / "twin"
    return folder, save_snapshot(make_twin(TwinParams()), folder)


def test_a_run_of_the_model_is_one_of_the_simulation_by_features_and_by_nav(
    market: tuple[Path, MarketSnapshot], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The prompt is masked and rounds prices, the simulation reads the market; decisions, fills and NAV are the same."""
    path = drawn_policy(tmp_path / "p.json")
    policy, seen = read_policy(path), []

    def watched(*given: Any) -> Any:
        seen.append(model_features(*given))
        return seen[-1]

    model_features = model_module.features
    monkeypatch.setattr(model_module, "features", watched)
    config = RunConfig(
        model="rl/policy",
        model_args={"policy": str(path)},
        tasks=(TASK,),
        data=str(market[0]),
        limit=STEPS,
        out=str(tmp_path / "run"),
    )
    evaluate(config, load_plugins())
    folder = RunFolder.load(tmp_path / "run")
    (spec,) = folder.manifest.specs
    assert spec.model_args == {"policy": str(path), "sha256": policy.sha256, "trained": "2020-04-01:2020-09-30"}
    card = json.loads((tmp_path / "run" / "cards" / f"{TASK}.json").read_text())
    assert card["model"]["args"] == spec.model_args
    steps = folder.load_ledger(spec).steps

    task = load_plugins().make_task(TASK)
    simulation = TradingSimulation(task, market[1], task.windows["stock"], 5, scale=0.01)
    navs, taken, vectors = [1e8], set(), []
    for _ in range(STEPS):
        vectors.append(simulation.observation())
        action = int(policy.values(vectors[-1]).argmax())
        taken.add(DECISIONS[action])
        navs.append(navs[-1] * math.exp(simulation.step(action)[1]))
    assert taken == set(DECISIONS)
    np.testing.assert_allclose(seen, vectors, atol=1e-3)
    np.testing.assert_allclose([step.nav_minor for step in steps], navs[1:], rtol=1e-9)


def test_the_simulation_rewards_what_was_held_and_begins_again(market: tuple[Path, MarketSnapshot]) -> None:
    task = load_plugins().make_task(TASK)
    days = market[1].days[np.isfinite(market[1].close[:, market[1].asset_index["MSFT"]])]
    closes = market[1].close[:, market[1].asset_index["MSFT"]]
    closes = closes[np.isfinite(closes)]
    span = Window("train", str(days[20]), str(days[23]))
    simulation = TradingSimulation(task, market[1], span, 4)
    moves = np.diff(np.log(closes))
    assert simulation.scale == pytest.approx(float(np.std(moves[19:23])))
    first = simulation.reset()
    np.testing.assert_allclose(first[:-1] * simulation.scale, moves[15:19], atol=1e-6)
    told = [simulation.step(action) for action in (2, 1, 0, 0)]  # filled at the close decided on
    assert [side for *_, side in (vector for vector, *_ in told)] == [1, 0, -1, -1]
    # A short of the whole NAV gains what the price falls; the second day it counts from a NAV that has moved.
    expected = [moves[19], 0.0, math.log(2 - math.exp(moves[21]))]
    np.testing.assert_allclose([reward for _, reward, *_ in told][:3], expected, atol=2e-6)
    assert [ended for *_, ended in told] == [False, False, False, True]
    assert not any(ruined for *_, ruined, _ in told)
    np.testing.assert_array_equal(simulation.reset(), first)


@on_each_row
def test_what_can_t_be_trained_on_is_refused(
    task: str, first: str, last: str, error: str, told: str, market: tuple[Path, MarketSnapshot]
) -> None:
    with pytest.raises(getattr(errors, error), match=told):
        TradingSimulation(load_plugins().make_task(task), market[1], Window("train", first, last), 10)


@on_each_row
def test_the_command_refuses_in_one_line(
    words: list[str], told: str, market: tuple[Path, MarketSnapshot], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.delitem(sys.modules, "ktdeval_models.rl.train", raising=False)
    for package in ("stable_baselines3", "gymnasium", "torch"):
        monkeypatch.setitem(sys.modules, package, None)
    task = [] if "--task" in words else ["--task", TASK]
    assert main(["rl", "train", *task, "--data", str(market[0]), "--output", str(tmp_path / "p.json"), *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert told in line
    assert not (tmp_path / "p.json").exists()


@on_each_row
def test_a_run_is_refused_before_its_first_step(
    words: str, told: str, market: tuple[Path, MarketSnapshot], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = drawn_policy(tmp_path / "p.json", last="2020-12-31")
    out = tmp_path / "run"
    given = ["--model-args", words.format(path), "--tasks", TASK, "--data", str(market[0]), "--out", str(out)]
    for command in (["run"], ["plan"]):
        assert main([*command, "--model", "rl/policy", *given]) == 2
        assert told in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize(("task", "changes"), [("investorbench_msft", {}), (TASK, {"hold": "keep"}), (TASK, {"lookback": 60})])
def test_a_task_that_the_policy_can_t_decide_on_stops_the_run(
    task: str, changes: dict[str, Any], market: tuple[Path, MarketSnapshot], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = drawn_policy(tmp_path / "p.json", **changes)
    given = ["--tasks", task, "--data", str(market[0]), "--out", str(tmp_path / "run"), "--quiet", "--limit", "1"]
    assert main(["--model", "rl/policy", "--model-args", f"policy={path}", *given]) != 0
    printed = capsys.readouterr().err
    assert "rl/policy: decides on one asset by" in printed
    assert f"`hold` is {changes.get('hold', 'flat')}" in printed


def test_research_is_declined(tmp_path: Path) -> None:
    model = load_plugins().make_model("rl/policy", {"policy": str(drawn_policy(tmp_path / "p.json"))})
    assert model.reply(ModelRequest(())) == Reply("No research.")
