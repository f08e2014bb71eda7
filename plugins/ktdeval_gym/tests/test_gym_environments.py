"""Public environments: Gymnasium's checks, byte-identical results, episodes recorded as runs.
Skipped if the extra `gym` is not installed.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from inline_snapshot import snapshot

pytestmark = pytest.mark.slow

EXTRA = "needs gymnasium: pip install '.[gym]'"
gymnasium = pytest.importorskip("gymnasium", reason=EXTRA)

from gymnasium.utils.env_checker import check_env  # noqa: E402

import ktdeval_gym.envs  # noqa: E402, F401 - registers the environments
from gym_worlds import as_bytes  # noqa: E402
from ktdeval.cards import load_card  # noqa: E402
from ktdeval.cli.main import main  # noqa: E402
from ktdeval.errors import DataError, UsageError  # noqa: E402
from ktdeval.runner import load_ledger  # noqa: E402
from ktdeval.testing import errors_with  # noqa: E402
from ktdeval_gym.policies.rollouts import RolloutJob, roll_out_all  # noqa: E402

INVESTORBENCH = "synthetic_investorbench"
SHORT = "2020-10-02:2020-10-08"
ENVIRONMENTS = [
    ("ktdeval/Trading-v0", {"windows": SHORT}),
    ("ktdeval/Trading-v0", {"task": "market_blinded", "data": "synthetic_us"}),
    ("ktdeval/Trading-v0", {"task": "investorbench_portfolio", "data": INVESTORBENCH}),
    ("ktdeval/KtdFin-v0", {"windows": "W1"}),
]


@pytest.mark.exhaustive
@pytest.mark.parametrize(("name", "options"), ENVIRONMENTS)
def test_an_environment_passes_gymnasiums_checks_and_repeats_itself(
    name: str, options: dict[str, Any], recwarn: pytest.WarningsRecorder
) -> None:
    env = gymnasium.make(name, render_mode="ansi", **options)
    check_env(env.unwrapped)

    assert [str(each.message) for each in recwarn if "WARN" in str(each.message)] == []

    env.action_space.seed(3)
    actions = [env.action_space.sample() for _ in range(2)]

    assert steps_of(env, actions) == steps_of(env, actions)
    assert env.render()


def steps_of(env: Any, actions: list[Any]) -> list[Any]:
    """What an environment returns for a list of actions, as bytes and numbers."""
    observation, _ = env.reset(seed=5)
    returned = [as_bytes(observation)]

    for action in actions:
        observation, reward, *ends, _ = env.step(action)
        returned.append((as_bytes(observation), reward, ends))

    return returned


# ---- records


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("ktdeval/Trading-v0", {"windows": SHORT}),
        (
            "ktdeval/Trading-v0",
            {"task": "investorbench_portfolio", "data": INVESTORBENCH, "windows": SHORT},
        ),
        ("ktdeval/KtdFin-v0", {"windows": "2024-04-01:2024-04-08"}),
    ],
)
def test_an_episode_is_written_as_a_run_that_verifies(
    name: str, options: dict[str, Any], tmp_path: Path
) -> None:
    env = gymnasium.make(name, out=str(tmp_path), **options)
    env.action_space.seed(2)
    env.reset(seed=1)
    is_over = False
    navs = []

    while not is_over:
        *_, is_ruined, is_last, info = env.step(env.action_space.sample())
        navs.append(info["nav"])
        is_over = is_ruined or is_last

    run = tmp_path / "episode_0001" / "run"
    (card,) = (run / "cards").glob("*.json")

    assert load_card(card)
    assert main(["card", "verify", str(card)]) == 0

    ledger = load_ledger(next(run.glob("episodes/*/ledger.parquet")))
    booked = [step.nav_minor / ledger.minor_per_unit for step in ledger.steps]

    assert booked == navs


# ---- roll-outs


def make_trading() -> Any:
    return gymnasium.make("ktdeval/Trading-v0", windows=SHORT)


class Drawing:
    """Policy with random actions."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def __call__(self, _observation: Any) -> Any:
        return self._rng.integers(3, size=1)


def test_roll_outs_that_are_resumed_give_the_same_bytes(tmp_path: Path) -> None:
    jobs = [RolloutJob(f"seed-{seed}", make_trading, Drawing, seed) for seed in range(3)]
    whole = roll_out_all(jobs, tmp_path / "whole")

    assert len({each.rewards for each in whole}) == 3

    # killed after one record, while the next was being written
    roll_out_all(jobs[:1], tmp_path / "cut")
    assert roll_out_all(jobs, tmp_path / "cut") == whole

    for job in jobs:
        name = f"{job.name}.json"
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()

    (tmp_path / "cut" / "seed-1.json").write_text(json.dumps({"format": "other"}))
    with pytest.raises(DataError, match="seed-1"):
        roll_out_all(jobs, tmp_path / "cut")

    with pytest.raises(UsageError, match="letters"):
        roll_out_all([replace(jobs[0], name="../x")], tmp_path)


# ---- refusals


def test_an_option_that_does_not_fit_is_refused() -> None:
    assert errors_with(
        partial(gymnasium.make, "ktdeval/Trading-v0"),
        {"reward": "sharpe"},
        {"lookback": 3},
        {"windows": "1999-01-04:1999-02-01"},
        {"task": "qfinzero_calling"},
    ) == snapshot("""\
UsageError: reward 'sharpe' is unknown: choose log_return, after_costs, benchmark_relative, differential_sharpe
UsageError: lookback: the environment shows what the task shows; leave it out
DataError: window 1999-01-04…1999-02-01 lies outside the data, which allow 2019-04-11…2023-12-19 (nothing is filled on the first day, which only decides); choose a window inside, such as by --windows FIRST:LAST, or other data
UsageError: task qfinzero_calling is not a trading task; choose one (`ktdeval list tasks`)
""")
