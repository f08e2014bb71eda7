"""Makers of environments, their records and roll-outs, checked by value. Skipped if the extra `gym`
is not installed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("gymnasium", reason="needs gymnasium: pip install '.[gym]'")

from gymnasium.spaces import MultiDiscrete
from inline_snapshot import snapshot

from gym_worlds import MSFT
from ktdeval.errors import DataError, UsageError
from ktdeval.harness import ModelRequest
from ktdeval.registry import load_plugins
from ktdeval.testing import error_lines, errors_with
from ktdeval.values import sha256_hex
from ktdeval_gym.gymnasium_makers import make_trading, make_trading_vector
from ktdeval_gym.open_task import NoModel, OpenedTask, TaskChoice, mask_key_of
from ktdeval_gym.policies.rollouts import RolloutJob, roll_out, roll_out_all
from ktdeval_gym.recording import new_folder
from ktdeval_gym.rewards import RewardConfig
from support.runs.export_runs import QUESTIONS

SHORT = "2020-10-02:2020-10-08"
LATER = "2020-11-02:2020-11-09"


# ---- options


def test_options_reach_reward_and_text() -> None:
    env = make_trading(
        windows=(SHORT,),
        reward="after_costs",
        eta=0.5,
        cost_bps=7.0,
        render_mode="ansi",
    )

    env.reset()

    assert env._rewards._config == RewardConfig("after_costs", 0.5, 7.0)
    assert str(env.render()).startswith('{"day":"day_+0","account":')


def test_several_windows_are_for_a_vector() -> None:
    with pytest.raises(UsageError, match=f"windows: {SHORT}, {LATER}: an environment has one"):
        make_trading(windows=(SHORT, LATER))


@pytest.mark.parametrize(
    ("number", "rows"), [(None, [0, 1]), (1, [0]), (2, [0, 1]), (5, [0, 1, 0, 1, 0])]
)
def test_a_vector_takes_its_windows_in_turn(number: int | None, rows: list[int]) -> None:
    vector = make_trading_vector(number, windows=(SHORT, LATER))
    both = make_trading_vector(2, windows=(SHORT, LATER)).reset()[0]["figures"].tolist()

    figures = vector.reset()[0]["figures"]

    assert figures.shape == (len(rows), 1, 6)
    assert figures.tolist() == [both[row] for row in rows]
    assert both[0] != both[1]


def test_one_asset_is_a_portfolio_of_one() -> None:
    env = make_trading(windows=SHORT)
    observation, info = env.reset()

    assert env.action_space == MultiDiscrete([3])
    assert (observation["figures"].shape, observation["cash"].tolist()) == ((1, 6), [1.0])
    assert len(info["assets"]) == 1

    observation, *_ = env.step([2])

    assert observation["weights"] == pytest.approx([1.0])


def test_the_benchmark_of_one_asset_is_the_asset() -> None:
    env = make_trading(windows=SHORT, reward="benchmark_relative")
    env.reset()
    env.step([2])

    # the whole account holds the asset: what is left is the cost of the purchase
    assert env.step([2])[1] == pytest.approx(0.0, abs=1e-6)


def test_a_vector_refuses_what_it_has_not() -> None:
    assert errors_with(
        partial(make_trading_vector, windows=SHORT),
        {"num_envs": 0},
        {"out": "x"},
        {"render_mode": "ansi"},
        {"windws": SHORT},
        {"lookback": 3},
    ) == snapshot("""\
UsageError: num_envs is 0; choose 1 or more
UsageError: out: a vector environment does not support it; make single environments
UsageError: render_mode: a vector environment does not support it; make single environments
UsageError: no option windws; did you mean 'windows'?; choose from cost_bps, data, data_args, eta, out, render_mode, reward, seed, windows
UsageError: lookback: the environment shows what the task shows; leave it out
""")


# ---- opened tasks


def test_the_key_of_a_mask_is_32_digits_of_the_seeds_hash() -> None:
    assert mask_key_of(7) == sha256_hex(b"ktdeval_gym mask 7")[:32]
    assert len(mask_key_of(0)) == 32


def test_a_task_of_questions_is_no_environment() -> None:
    with pytest.raises(UsageError, match="is not a trading"):
        OpenedTask.of(TaskChoice("todo"), load_plugins((str(QUESTIONS),)))


def test_a_market_without_the_tasks_assets_is_refused() -> None:
    with pytest.raises(DataError, match="MSFT"):
        OpenedTask.of(TaskChoice(MSFT, "synthetic_us", windows=(SHORT,)))


def test_a_model_that_is_never_asked_says_at_which_step_it_was() -> None:
    with pytest.raises(UsageError, match="step 3 was asked of no model"):
        NoModel().reply(ModelRequest((), step=3))


# ---- records


def test_each_episode_has_a_folder_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "episode_0002").mkdir()

    made = [new_folder(tmp_path / "out").name for _ in range(3)]

    assert made == ["episode_0001", "episode_0003", "episode_0004"]
    assert new_folder(tmp_path / "new") == tmp_path / "new" / "episode_0001"


# ---- roll-outs


class Counting:
    """An environment with plain numbers that ends after three steps, or is ruined earlier."""

    def __init__(self, is_ruined: bool = False) -> None:
        self._step = 0
        self._is_ruined = is_ruined

    def reset(self, seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
        self._step = seed
        return self._seen(), {}

    def _seen(self) -> dict[str, Any]:
        return {"b": np.array([self._step]), "a": np.array([0.5])}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._step += 1
        is_ruined = self._is_ruined and self._step == 12
        return self._seen(), self._step / 4, is_ruined, self._step == 13, {}

    def close(self) -> None:
        self._step = -1


@dataclass
class Replaying:
    """Policy with given actions; `_seed` is ignored."""

    actions: Sequence[Any]

    def __call__(self, observation: Any) -> Any:
        return self.actions[int(observation["b"][0]) - 10]


def job_of(name: str = "a-1_b", is_ruined: bool = False) -> RolloutJob:
    actions = [np.array([1, 2]), 3, np.float32(0.25)]
    return RolloutJob(name, lambda: Counting(is_ruined), lambda _seed: Replaying(actions), 10)


def test_a_roll_out_ends_where_the_account_is_ruined() -> None:
    rolled = roll_out(job_of(is_ruined=True))

    assert (rolled.is_terminated, rolled.rewards) == (True, (2.75, 3.0))


@pytest.mark.parametrize("name", ["", "a b", "../x", "a.b"])
def test_a_name_of_a_roll_out_is_fit_for_a_file(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="use letters, digits, - and _ in a name"):
        roll_out_all([job_of(name)], tmp_path)


def test_records_of_other_roll_outs_are_refused(tmp_path: Path) -> None:
    (rolled,) = roll_out_all([job_of()], tmp_path)

    assert rolled == roll_out(job_of())

    assert error_lines(
        lambda: roll_out_all([job_of(), job_of()], tmp_path),
        lambda: roll_out_all([replace(job_of(), seed=11)], tmp_path),
        folder=tmp_path,
    ) == snapshot("""\
UsageError: two roll-outs have the same name; name each one differently
DataError: roll-out FOLDER/a-1_b.json is of a-1_b with seed 10; choose another folder
""")
