"""A trained policy: its file and features, its market, its training and its runs."""

from __future__ import annotations

import json
import math
import os
import pickle
import re
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from inline_snapshot import snapshot

from gym_worlds import BASE, opened_on
from ktdeval import errors
from ktdeval.errors import DataError, ProviderError
from ktdeval.harness import ModelRequest, ModelTraits, Reply, ToolSpec
from ktdeval.market import Instrument, MarketSnapshot, save_snapshot
from ktdeval.registry import load_plugins
from ktdeval.runner import EpisodeFactory, RunConfig, RunFolder, choose_windows, evaluate
from ktdeval.task_api import Window
from ktdeval.testing import Terminal, errors_of, on_each_row, snapshot_of_days
from ktdeval.values import install_command
from ktdeval_gym.open_task import OpenedTask, TaskChoice
from ktdeval_gym.policies import policy as module
from ktdeval_gym.policies.params import PolicyParams
from ktdeval_gym.policies.policy import DECISIONS, PolicyModel, features, overlap, read_policy
from ktdeval_gym.policies.policy_training import PolicyTraining
from ktdeval_gym.policies.training_checks import check_days
from ktdeval_gym.rl.command import PolicyOptions, rl
from ktdeval_investorbench.markets import make_twin
from ktdeval_investorbench.provider_params import InvestorMarketParams

TASK = "investorbench_msft_history"
STEPS = 25
FACTS = {
    "format": "ktdeval-rl-policy/1",
    "algorithm": "ppo",
    "activation": "tanh",
    "lookback": 2,
    "scale": 0.01,
    "hold": "flat",
    "task": "investorbench_msft_history",
    "snapshot": "",
    "first": "2020-04-01",
    "last": "2020-09-30",
    "steps": 1,
    "seed": 0,
    "libraries": {},
}


def write_policy(path: Path, weights: list[Any], biases: list[Any], **changes: Any) -> Path:
    """Write the file of a policy; returns its path."""
    path.write_text(
        json.dumps({**FACTS, "weights": weights, "biases": biases, **changes}), encoding="utf-8"
    )
    return path


def drawn_policy(path: Path, lookback: int = 5, seed: int = 1, **changes: Any) -> Path:
    """Write a policy with one hidden layer of random weights, which takes each decision from time
    to time.
    """
    rng = np.random.default_rng(seed)
    sizes = (lookback + 1, 8, 3)
    weights = [rng.normal(size=(outputs, inputs)).tolist() for inputs, outputs in pairwise(sizes)]

    return write_policy(
        path, weights, [[0.0] * size for size in sizes[1:]], lookback=lookback, **changes
    )


@pytest.fixture(scope="module")
def market(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, MarketSnapshot]:
    folder = tmp_path_factory.mktemp("market") / "twin"
    return folder, save_snapshot(make_twin(InvestorMarketParams()), folder)


def training_of(
    task: str, market: MarketSnapshot, window: str, lookback: int, scale: float | None = None
) -> PolicyTraining:
    """The training of a task in a window, by name or FIRST:LAST."""
    plugins = load_plugins()
    made = plugins.make_task(task)
    chosen = choose_windows(made, (window,))
    windows = tuple(each for each in chosen if each is not None)
    choice = TaskChoice(task, windows=(window,))

    return PolicyTraining.of(OpenedTask(choice, plugins, made, market, windows), lookback, scale)


@pytest.mark.exhaustive
def test_policy_run_matches_the_training_in_features_and_nav(
    market: tuple[Path, MarketSnapshot], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs and trainings draw different mask keys; features, decisions, fills and NAV are the
    same.
    """
    pytest.importorskip("gymnasium", reason="needs gymnasium: pip install '.[gym]'")
    from ktdeval_gym.rl.policy_env import PolicyEnv

    path = drawn_policy(tmp_path / "p.json")
    policy = read_policy(path)
    seen = []

    def watched(*given: Any) -> Any:
        seen.append(model_features(*given))
        return seen[-1]

    model_features = module.features
    monkeypatch.setattr(module, "features", watched)
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

    assert spec.model_args == {
        "policy": str(path),
        "sha256": policy.sha256,
        "trained": "2020-04-01:2020-09-30",
    }

    card = json.loads((tmp_path / "run" / "cards" / f"{TASK}.json").read_text())
    assert card["model"]["args"] == spec.model_args

    steps = folder.load_ledger(spec).steps

    env = PolicyEnv(training_of(TASK, market[1], "stock", 5, scale=0.01))
    observation, _ = env.reset()
    navs = [1e8]
    taken = set()
    vectors = []

    for _ in range(STEPS):
        vectors.append(observation)
        action = int(policy.values(observation).argmax())
        taken.add(DECISIONS[action])
        observation, reward, *_ = env.step(action)
        navs.append(navs[-1] * math.exp(reward))

    assert taken == set(DECISIONS)

    np.testing.assert_array_equal(seen, vectors)
    np.testing.assert_allclose([step.nav_minor for step in steps], navs[1:], rtol=1e-9)


_ADVICE = (
    (re.compile(r"choose one (?:of|such as) --task ([a-z_0-9]+)"), "--task"),
    (re.compile(r"--lookback (\d+) or less"), "--lookback"),
    (re.compile(r"train on days before (\S+?),"), "--train"),
)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("task", "lookback", "days"),
    [
        ("qfinzero_calling", "10", "2020-04-01:2020-09-30"),
        ("investorbench_portfolio", "10", "2020-04-01:2020-09-30"),
        ("investorbench_msft", "10", "2020-04-01:2020-09-30"),
        ("investorbench_msft", "300", "2020-04-01:2020-09-30"),
        ("investorbench_msft_history", "64", "2020-04-01:2020-09-30"),
        ("investorbench_msft_history", "10", "2020-10-05:2021-01-04"),
        ("blinded_memory_only", "499", "2020-04-01:2020-09-30"),
    ],
)
def test_the_advice_of_each_refusal_leads_to_a_training(
    task: str, lookback: str, days: str, market: tuple[Path, MarketSnapshot], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, terminal: Terminal,
) -> None:  # fmt: skip
    monkeypatch.delitem(sys.modules, "ktdeval_gym.rl.train", raising=False)
    for package in ("stable_baselines3", "gymnasium", "torch"):
        monkeypatch.setitem(sys.modules, package, None)

    words = {"--task": task, "--lookback": lookback, "--train": days}
    seen: list[dict[str, str]] = []
    for _ in range(5):
        assert words not in seen, "the advice leads back to what was refused"
        seen.append(dict(words))
        given = [word for pair in words.items() for word in pair]
        error = terminal.error(
            "train", "rl", *given, "--data", market[0], "--output", tmp_path / "p.json"
        )
        if install_command("rl") in error:
            break

        advice = {
            option: match[1] for pattern, option in _ADVICE if (match := pattern.search(error))
        }
        assert advice, error
        if "--train" in advice:
            advice["--train"] = f"2020-04-01:{np.datetime64(advice['--train']) - 1}"

        words |= advice

    assert install_command("rl") in error

    # A task for which only the extra is missing can be trained: the market has the days.
    chosen = words["--task"]
    returns = int(words["--lookback"])

    try:
        training = training_of(chosen, market[1], words["--train"], returns)
    except DataError as error:  # the days belong to another asset
        found = re.search(r"choose days from (\S+) to ([0-9-]+)", str(error))
        if found is None:
            raise

        training = training_of(chosen, market[1], f"{found[1]}:{found[2]}", returns)

    assert training.scale > 0


def test_a_market_without_days_before_those_evaluated_is_refused(
    market: tuple[Path, MarketSnapshot],
) -> None:
    task = load_plugins().make_task(TASK)
    check_days(task, market[1], 10, [Window("w", "2020-10-02", "2021-05-05")])
    with pytest.raises(
        DataError,
        match=(
            r"has no days to train on: a decision needs 10 earlier returns, which are available from 2020-.* on, and"
        ),
    ):
        check_days(task, market[1], 10, [Window("w", "2020-03-20", "2021-05-05")])


@on_each_row(
    "task, first, last, error, message",
    (
        "investorbench_portfolio",
        "2020-04-01",
        "2020-09-30",
        "UsageError",
        "does not ask for BUY, SELL or HOLD of one asset",
    ),
    (
        "blinded_memory_only",
        "2020-04-01",
        "2020-09-30",
        "UsageError",
        "does not ask for BUY, SELL or HOLD of one asset",
    ),
    (
        "investorbench_msft_history",
        "2020-03-16",
        "2020-09-30",
        "DataError",
        "fewer than 11 closes are known, which 10 returns need; choose days from 2020-",
    ),
    (
        "investorbench_msft_history",
        "2020-04-01",
        "2020-04-01",
        "DataError",
        "closes from 2020-04-01 to 2020-04-01; choose days from 20",
    ),
    ("investorbench_msft_history", "2019-03-16", "2020-09-30", "DataError", "2019-03-16"),
    (
        "investorbench_msft_history",
        "2022-11-30",
        "2022-12-30",
        "DataError",
        "0 closes from 2022-11-30 to 2022-12-30; choose days from 2020-",
    ),
)
def test_what_can_t_be_trained_on_is_refused(
    task: str, first: str, last: str, error: str, message: str, market: tuple[Path, MarketSnapshot]
) -> None:
    with pytest.raises(getattr(errors, error), match=message):
        training_of(task, market[1], f"{first}:{last}", 10)


@on_each_row(
    "words, message",
    (
        ["--train", "2020-04-01:2020-10-02"],
        "--train: window stock (2020-10-02:2021-05-05) is not after the days of",
    ),
    (
        ["--train", "2020-04-01:2020-10-02", "--windows", "2021-01-04:2021-03-01"],
        "pip install 'gymnasium",
    ),
    (
        ["--train", "2020-04-01:2020-09-30", "--output", "."],
        ".: is a folder, not a file; choose another --output",
    ),
    (["--train", "*"], "--train *: names"),
    (["--train", "soon"], "has no window 'soon'"),
    (
        ["--train", "2020-04-01:2020-09-30", "--lookback", "64"],
        "shows 64 bars, and 64 returns need 65; give --lookback 63 or less",
    ),
    (
        ["--train", "2020-04-01:2020-09-30", "--task", "investorbench_msft"],
        "shows no history of bars; choose one of --task investorbench_msft_history",
    ),
    (
        ["--train", "2020-04-01:2020-09-30", "--task", "qfinzero_calling"],
        "does not ask for BUY, SELL or HOLD of one asset",
    ),
    (
        ["--train", "2020-04-01:2020-09-30", "--task", "investorbench_msft", "--lookback", "70"],
        "and --lookback 63 or less",
    ),
    (
        ["--train", "2020-04-01:2020-09-30"],
        "training: gymnasium is not installed: pip install",
    ),
)
def test_the_command_refuses_in_one_line(
    words: list[str], message: str, market: tuple[Path, MarketSnapshot], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, terminal: Terminal,
) -> None:  # fmt: skip
    monkeypatch.delitem(sys.modules, "ktdeval_gym.rl.train", raising=False)
    for package in ("stable_baselines3", "gymnasium", "torch"):
        monkeypatch.setitem(sys.modules, package, None)

    task = [] if "--task" in words else ["--task", TASK]
    (line,) = terminal.error(
        "train", "rl", *task, "--data", market[0], "--output", tmp_path / "p.json", *words
    ).splitlines()

    assert message in line
    assert not (tmp_path / "p.json").exists()


@on_each_row(
    "words, message",
    (
        "policy={}",
        (
            "rl/policy: window stock (2020-10-02:2021-05-05) is not after the days of "
            "training, 2020-04-01"
        ),
    ),
    ("policy={},sha256=00", "sha256 is "),
    (
        "policy={},trained=2020-01-01:2020-02-01",
        "trained is 2020-04-01:2020-12-31, not 2020-01-01:2020-02-01",
    ),
    ("policy=none.json", "policy none.json: can't be read: No such file"),
    ("seed=1", "policy"),
)
def test_a_run_is_refused_before_its_first_step(
    words: str,
    message: str,
    market: tuple[Path, MarketSnapshot],
    tmp_path: Path,
    terminal: Terminal,
) -> None:
    path = drawn_policy(tmp_path / "p.json", last="2020-12-31")
    out = tmp_path / "run"
    given = [
        "--model-args",
        words.format(path),
        "--tasks",
        TASK,
        "--data",
        str(market[0]),
        "--out",
        str(out),
    ]

    for command in (["run"], ["plan"]):
        assert message in terminal.error(*command, "--model", "rl/policy", *given)

    assert not out.exists()


@pytest.mark.parametrize(
    ("task", "changes"),
    [("investorbench_msft", {}), (TASK, {"hold": "keep"}), (TASK, {"lookback": 64})],
)
def test_a_task_that_the_policy_can_t_decide_on_stops_the_run(
    task: str,
    changes: dict[str, Any],
    market: tuple[Path, MarketSnapshot],
    tmp_path: Path,
    terminal: Terminal,
) -> None:
    path = drawn_policy(tmp_path / "p.json", **changes)
    given = [
        "--tasks",
        task,
        "--data",
        str(market[0]),
        "--out",
        str(tmp_path / "run"),
        "--quiet",
        "--limit",
        "1",
    ]
    printed = terminal.error("--model", "rl/policy", "--model-args", f"policy={path}", *given)

    assert "rl/policy: decides on one asset by" in printed
    assert f"`hold` is {changes.get('hold', 'flat')}" in printed


def planted_policy(path: Path, **changes: Any) -> Path:
    """A policy on one return: BUY if nothing is held and the return is positive, SELL a holding,
    BUY back a short.
    """
    weights = [[[0, 1], [0, 0], [1, -2]]]
    return write_policy(path, weights, [[0, 0.5, 0]], lookback=1, scale=math.log(1.05), **changes)


@pytest.fixture(scope="module")
def rising() -> OpenedTask:
    """One US share that rises by 5% a day."""
    prices = [[round(20 * 1.05**row, 2)] for row in range(BASE + 6)]
    share = (Instrument("stock", "USD", "us_equity"),)
    made = snapshot_of_days(["AAA"], prices, instruments=share, first="2024-01-01")

    return opened_on(made, TASK, [(BASE + 1, BASE + 4)])


def played(opened: OpenedTask, path: Path, steps: int) -> list[Any]:
    """The step records of an episode in which a policy decides."""
    model = PolicyModel("", PolicyParams(str(path)))
    factory = EpisodeFactory({TASK: opened.task}, opened.plugins, opened.snapshot)
    episode = factory.open(opened.spec(opened.windows[0]), model)

    return [episode.run_step(step).step for step in range(steps)]


def test_a_policy_is_told_the_side_that_is_held(rising: OpenedTask, tmp_path: Path) -> None:
    steps = played(rising, planted_policy(tmp_path / "p.json"), 3)

    orders = [step.orders[0] for step in steps]
    shares = [step.positions[0].shares for step in steps[:2]]

    assert [order.side for order in orders] == ["BUY", "SELL", "BUY"]
    assert np.sign(shares).tolist() == [1, -1]
    assert {order.confidence for order in orders} == {0.5}
    assert steps[0].overall_reason.startswith("preferred by the trained policy")


@pytest.mark.parametrize(("lookback", "can_decide"), [(63, True), (64, False)])
def test_a_policy_needs_one_close_more_than_returns(
    rising: OpenedTask, lookback: int, can_decide: bool, tmp_path: Path
) -> None:
    """The task shows 64 bars."""
    zeros = [[[0.0] * (lookback + 1)] * 3]
    path = write_policy(tmp_path / "p.json", zeros, [[0, 0, 1]], lookback=lookback)
    model = PolicyModel("", PolicyParams(str(path)))
    asked: list[ModelRequest] = []

    class Watched:
        traits = ModelTraits(is_free=True)

        def reply(self, request: ModelRequest) -> Reply:
            asked.append(request)
            return model.reply(request)

    factory = EpisodeFactory({TASK: rising.task}, rising.plugins, rising.snapshot)
    episode = factory.open(rising.spec(rising.windows[0]), Watched())
    if can_decide:
        assert episode.run_step(0).step.provenance == "model"
        assert model.traits.request_problem(asked[0]) is None
        return

    with pytest.raises(ProviderError, match="decides on one asset by 65 closes of `history`"):
        episode.run_step(0)

    assert "65 closes" in str(model.traits.request_problem(asked[0]))


def test_a_step_without_a_submission_can_not_be_answered(tmp_path: Path) -> None:
    model = PolicyModel("", PolicyParams(str(planted_policy(tmp_path / "p.json"))))
    research = ModelRequest((), (ToolSpec("look", "", {}),))
    form = ModelRequest((), (ToolSpec("submit_action", "", {}),))

    assert model.traits.step_problem([research]) is not None
    assert model.traits.step_problem([]) is not None
    assert model.traits.step_problem([research, form]) is None
    assert model.traits.request_problem(research) is None


def test_research_is_declined(tmp_path: Path) -> None:
    model = load_plugins().make_model(
        "rl/policy", {"policy": str(drawn_policy(tmp_path / "p.json"))}
    )
    assert model.reply(ModelRequest(())) == Reply("No research.")


@pytest.mark.parametrize(("more", "is_read"), [(0, True), (1, False)])
def test_a_policy_has_8_mebibytes_at_most(more: int, is_read: bool, tmp_path: Path) -> None:
    path = write_policy(tmp_path / "p.json", ONE, [[0, 0, 0]])
    text = path.read_text()
    path.write_text(text + " " * (8 * 1024**2 - len(text) + more))

    if is_read:
        assert read_policy(path).content.lookback == 2
        return

    with pytest.raises(DataError, match="more than 8388608 bytes"):
        read_policy(path)


# -- a policy's file and features


def test_the_options_of_a_training_have_stated_defaults_and_bounds() -> None:
    options = PolicyOptions(task=TASK, train="days", output=Path("p.json"))
    bounds = {
        each.name: (each.type.min, each.type.max)
        for each in rl.params
        if isinstance(each.type, click.IntRange)
    }

    chosen = (options.algorithm, options.lookback, options.steps, options.seed)

    assert chosen == ("ppo", 10, 10_000, 0)
    assert bounds == {"lookback": (1, 499), "steps": (1, 10**8), "seed": (0, 2**31 - 1)}


@pytest.mark.parametrize(("weight", "is_read"), [(1e6, True), (-1e6, True), (1.1e6, False)])
def test_weights_lie_within_a_million(weight: float, is_read: bool, tmp_path: Path) -> None:
    path = write_policy(tmp_path / "p.json", [[[weight, 0, 0], [0, 0, 0], [0, 0, 0]]], [[0, 0, 0]])

    if is_read:
        assert read_policy(path).layers[0][0][0, 0] == weight
        return

    with pytest.raises(DataError, match=r"a weight or bias is not within ±1e\+06"):
        read_policy(path)


ONE = [[[1, 0, 0], [0, 1, 0], [0, 0, 1]]]


def test_networks_worked_by_hand(tmp_path: Path) -> None:
    weights = [[[1, 2, 0], [-1, 0, 3]], [[1, 0], [0, 1], [1, -1]]]
    biases = [[0.5, 0], [0, 0.25, 0]]
    vectors = np.array([[0.5, -1, 1], [0, 1, -1]], dtype=np.float32)
    hidden = np.array([[0.5 - 2 + 0.5, -0.5 + 3], [2.5, -3]])  # [-1, 2.5], [2.5, -3]

    for activation, shown in (("relu", np.maximum(hidden, 0)), ("tanh", np.tanh(hidden))):
        expected = np.column_stack([shown[:, 0], shown[:, 1] + 0.25, shown[:, 0] - shown[:, 1]])
        preferences = read_policy(
            write_policy(tmp_path / "p", weights, biases, activation=activation)
        ).values(vectors)
        assert preferences.dtype == np.float32
        np.testing.assert_allclose(preferences, expected, rtol=1e-6)

    assert (
        read_policy(write_policy(tmp_path / "p", ONE, [[0, 0, 0]])).values(vectors).tolist()
        == vectors.tolist()
    )


def test_features_are_clipped_scaled_log_returns_and_the_current_side() -> None:
    closes = 100 * np.exp(np.array([0.5, 0, 0.02, 0.01, 0.21]))
    np.testing.assert_allclose(features(closes, -1, 3, 0.01), [2, -1, 10, -1], rtol=1e-5)
    np.testing.assert_allclose(features(closes[1:], 0, 3, 0.02), [1, -0.5, 10, 0], rtol=1e-5)

    with pytest.raises(DataError, match="3 closes are known, and 3 returns need 4"):
        features(closes[2:], 0, 3, 0.01)


@on_each_row(
    "changes, message",
    ({"run": "rm"}, "unknown field 'run'"),
    ({"format": "ktdeval-rl-policy/2"}, "format: invalid enum value"),
    ({"algorithm": "os.system"}, "algorithm: invalid enum value"),
    ({"lookback": 0}, "lookback: expected `int` >= 1"),
    ({"scale": 0}, "scale: expected `float` >= 1e-09"),
    ({"last": "2020-09-30\n"}, "last: expected `str` matching"),
    ({"lookback": 3}, "inconsistent sizes, 4 features and 3 decisions"),
    ({"weights": [[[1, 0, 0], [0, 1, 0]]], "biases": [[0, 0]]}, "inconsistent sizes"),
    ({"weights": [[[1, 0, 0], [0, 1], [0, 0, 1]]]}, "inconsistent sizes"),
    ({"biases": [[0, 0]]}, "inconsistent sizes"),
    ({"biases": []}, "inconsistent sizes"),
    (
        {"weights": [[], [[1, 0, 0], [0, 1, 0], [0, 0, 1]]], "biases": [[], [0, 0, 0]]},
        "inconsistent sizes",
    ),
    ({"weights": []}, "weights: expected `array` of length >= 1"),
    (
        {
            "weights": [
                [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
                [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
                [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
                [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
                [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
                [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
                [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
                [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
                [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
            ]
        },
        "weights: expected `array` of length <= 8",
    ),
    ({"biases": [["0", 0, 0]]}, "biases[0][0]: expected `float`, was `str`"),
    ({"biases": [[1e300, 0, 0]]}, "not within ±1e+06"),
)
def test_an_invalid_policy_is_refused_in_one_line(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    path = write_policy(tmp_path / "p.json", **{"weights": ONE, "biases": [[0, 0, 0]], **changes})
    with pytest.raises(DataError) as caught:
        read_policy(path)

    assert str(caught.value).startswith(f"policy {path}: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value).replace(str(path), "")


def test_bytes_that_are_no_policy_are_refused_and_never_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return (Path.touch, (tmp_path / "ran",))

    path = tmp_path / "p"
    whole = write_policy(tmp_path / "whole", ONE, [[0, 0, 0]]).read_bytes()

    assert read_policy(tmp_path / "whole").sha256

    not_finite = (
        whole.replace(b"[[0, 0, 0]]", b"[[NaN, 0, 0]]"),
        whole.replace(b"[[0, 0, 0]]", b"[[1e999, 0, 0]]"),
    )

    for data in (
        b"",
        whole[:-5],
        whole + b"x",
        b"\xff\xfe",
        pickle.dumps(Trap()),
        b"[" * 100_000,
        b"PK\x03\x04",
        *not_finite,
    ):
        path.write_bytes(data)
        with pytest.raises(DataError, match=r"^policy .*p: "):
            read_policy(path)

    assert not (tmp_path / "ran").exists()

    os.mkfifo(tmp_path / "pipe")
    text = errors_of(read_policy, tmp_path / "pipe", tmp_path, tmp_path / "none", folder=tmp_path)

    monkeypatch.setattr(module, "MAX_BYTES", 100)
    text += errors_of(read_policy, tmp_path / "whole", folder=tmp_path)

    assert text == snapshot("""\
DataError: policy FOLDER/pipe: can't be read: is not a plain file but a pipe, a device or a socket; make one with `ktdeval train rl`
DataError: policy FOLDER: can't be read: Is a directory; make one with `ktdeval train rl`
DataError: policy FOLDER/none: can't be read: No such file or directory; make one with `ktdeval train rl`
DataError: policy FOLDER/whole: can't be read: has more than 100 bytes; make one with `ktdeval train rl`
""")
    assert json.loads(whole)["format"] == "ktdeval-rl-policy/1"


@pytest.mark.parametrize(
    ("last", "refused"), [("2020-10-01", False), ("2020-10-02", True), ("2022-01-03", True)]
)
def test_a_window_has_to_lie_after_the_days_of_training(last: str, refused: bool) -> None:
    problem = overlap("2020-04-01", last, Window("stock", "2020-10-02", "2021-05-05"))
    assert (problem is not None) == refused
    assert (
        problem is None
        or f"is not after the days of training, 2020-04-01:{last}; train on days before 2020-10-02"
        in problem
    )
