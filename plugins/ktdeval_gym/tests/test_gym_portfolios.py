"""Multi-asset environments: N at once equal to single ones, no look-ahead, the end of an episode.
Skipped if the extra `gym` is not installed.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, get_args

import numpy as np
import pytest
from inline_snapshot import snapshot

pytestmark = pytest.mark.slow

gymnasium = pytest.importorskip("gymnasium", reason="needs gymnasium: pip install '.[gym]'")


import ktdeval_gym.envs  # noqa: E402, F401 - registers the environments
from gym_worlds import BASE, as_bytes, moved_market, opened_on  # noqa: E402
from ktdeval.errors import UsageError  # noqa: E402
from ktdeval.market import MarketSnapshot  # noqa: E402
from ktdeval.registry import load_plugins  # noqa: E402
from ktdeval.runner import choose_windows  # noqa: E402
from ktdeval.testing import (  # noqa: E402
    error_lines,
    errors_with,
    small_market,
)
from ktdeval_gym.arrays import TaskForm  # noqa: E402
from ktdeval_gym.open_task import OpenedTask, TaskChoice  # noqa: E402
from ktdeval_gym.portfolio_vector import PortfolioVectorEnv, make_task_vector  # noqa: E402
from ktdeval_gym.rewards import RewardConfig, RewardName  # noqa: E402
from ktdeval_gym.task_env import TaskEnv  # noqa: E402

STEPS = int(os.environ.get("KTDEVAL_GYM_STEPS", "9"))
KTDFIN = TaskChoice(
    "blinded_fixed_candidate", windows=("2024-04-01:2024-04-08", "2024-04-02:2024-04-03")
)
DECISIONS = TaskChoice(
    "investorbench_portfolio",
    "synthetic_investorbench",
    windows=("2020-10-02:2020-10-09", "2020-10-05:2020-10-06"),
)
SINGLE = replace(DECISIONS, task="investorbench_msft_history")
MARKET = TaskChoice(
    "market_blinded", "synthetic_us", windows=("2024-03-01:2024-03-08", "2024-03-04:2024-03-05")
)
FURTHER = pytest.mark.exhaustive
SMALL = [(BASE + 1, BASE + 4), (BASE + 2, BASE + 3)]


def drawn_actions(space: Any, steps: int) -> list[Any]:
    """Random actions for a batch; most target weights are 0, so that positions are opened and
    closed.
    """
    rng = np.random.default_rng(7)
    space.seed(7)
    actions = []

    for _ in range(steps):
        action = space.sample()
        if action.dtype.kind == "f":
            action *= rng.random(action.shape) < 0.3

        actions.append(action)

    return actions


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("choice", "reward"),
    [
        (KTDFIN, "differential_sharpe"),
        (SINGLE, "benchmark_relative"),
        pytest.param(DECISIONS, "benchmark_relative", marks=FURTHER),
        pytest.param(MARKET, "after_costs", marks=FURTHER),
    ],
)
def test_portfolios_at_once_are_equal_to_single_ones_step_by_step(
    choice: TaskChoice, reward: Any
) -> None:
    check_many(OpenedTask.of(choice), reward)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("task", "reward"),
    [
        ("market_blinded", "differential_sharpe"),
        ("market_blinded", "after_costs"),
        ("investorbench_portfolio", "benchmark_relative"),
        ("investorbench_msft_history", "log_return"),
    ],
)
def test_portfolios_on_a_small_market_are_equal_to_single_ones(task: str, reward: Any) -> None:
    check_many(opened_on(moved_market(), task, SMALL), reward)


@pytest.mark.exhaustive
def test_portfolios_of_a_shares_are_equal_to_single_ones() -> None:
    """The task appends positions to its candidates, and settles none of the orders of an action
    that breaks a rule, as far as is known when deciding.
    """
    plugins = load_plugins()
    task = plugins.make_task("blinded_fixed_candidate")
    choice = replace(KTDFIN, windows=("2024-03-04:2024-03-07", "2024-03-05:2024-03-06"))
    windows = choose_windows(task, tuple(choice.windows))
    chosen = tuple(window for window in windows if window is not None)

    check_many(OpenedTask(choice, plugins, task, small_market(), chosen), "log_return")


def check_many(opened: OpenedTask, reward: Any) -> None:
    """Check that portfolios stepping together equal single environments, through several
    episodes.
    """
    windows = [*opened.windows, opened.windows[1]]
    config = RewardConfig(reward)
    many = make_task_vector(opened, windows, config)

    assert isinstance(many, PortfolioVectorEnv)

    single = gymnasium.vector.SyncVectorEnv(
        [partial(TaskEnv, opened, window, config) for window in windows]
    )

    assert as_bytes(many.reset(seed=1)[0]) == as_bytes(single.reset(seed=1)[0])

    ends = 0

    for action in drawn_actions(many.action_space, STEPS):
        got = many.step(action)
        expected = single.step(action)
        for each, other in zip(got[:4], expected[:4], strict=True):
            assert as_bytes(each) == as_bytes(other)

        np.testing.assert_array_equal(got[4]["nav"], expected[4]["nav"])
        ends += int(got[3].sum())

    assert ends >= 2 * (STEPS // 3)  # two of the windows restart at each third step


def test_under_a_mask_that_rounds_each_of_many_is_a_single_one() -> None:
    coarse = replace(KTDFIN, task="blinded_rebased_fixed_candidate")
    opened = OpenedTask.of(coarse)
    many = make_task_vector(opened, [opened.windows[0]] * 2)

    assert not isinstance(many, PortfolioVectorEnv)

    single = TaskEnv(opened, opened.windows[0])
    first = single.reset()[0]
    both = many.reset()[0]

    assert as_bytes(first) == as_bytes({name: array[1] for name, array in both.items()})


# ---- no look-ahead


def poisoned(snapshot: MarketSnapshot, row: int) -> MarketSnapshot:
    """The market with different prices, volumes, levels and members from a row on."""
    later = np.arange(len(snapshot.days)) >= row
    changed: dict[str, Any] = {
        name: np.where(later[:, None], getattr(snapshot, name) * 1.5, getattr(snapshot, name))
        for name in ("open", "high", "low", "close", "volume", "amount")
    }
    changed["indices"] = {
        name: np.where(later, levels * 1.5, levels) for name, levels in snapshot.indices.items()
    }
    changed["member"] = np.where(later[:, None], np.roll(snapshot.member, 1, 1), snapshot.member)

    return replace(snapshot, **changed)


def played(env: Any, actions: Sequence[Any]) -> list[Any]:
    """What an environment returns for a list of actions, including its text."""
    returned: list[Any] = [as_bytes(env.reset(seed=1)[0])]
    for action in actions:
        observation, *others, info = env.step(action)
        returned.append(
            (as_bytes(observation), [as_bytes(each) for each in others], as_bytes(info["nav"]))
        )
        if getattr(env, "render_mode", None):
            returned[-1] += (env.render(),)

    return returned


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "choice",
    [KTDFIN, SINGLE, pytest.param(DECISIONS, marks=FURTHER), pytest.param(MARKET, marks=FURTHER)],
)
def test_nothing_up_to_a_day_depends_on_later_days(choice: TaskChoice) -> None:
    check_look_ahead(OpenedTask.of(choice), get_args(RewardName))


@pytest.mark.parametrize("task", ["market_blinded", "investorbench_portfolio"])
def test_nothing_of_a_small_market_depends_on_later_days(task: str) -> None:
    check_look_ahead(opened_on(moved_market(), task, SMALL), ("benchmark_relative",))


def check_look_ahead(opened: OpenedTask, rewards: Sequence[Any]) -> None:
    """Check that observations and rewards up to a day equal those on a market with a different
    future.
    """
    window = opened.windows[0]
    known = 2
    first_fill = int(np.searchsorted(opened.snapshot.days, np.datetime64(window.first)))
    twin = replace(opened, snapshot=poisoned(opened.snapshot, first_fill + known))

    for name in rewards:
        config = RewardConfig(name)
        many = [make_task_vector(each, [window] * 2, config) for each in (opened, twin)]
        actions = drawn_actions(many[0].action_space, known + 1)
        first, second = (played(env, actions) for env in many)
        assert first[: known + 1] == second[: known + 1]
        # one step later the changed prices are visible
        assert first[known + 1] != second[known + 1]

        single = [TaskEnv(each, window, config, "ansi") for each in (opened, twin)]
        alone = [action[0] for action in actions[:known]]
        first, second = (played(env, alone) for env in single)
        assert first == second


# ---- the end of an episode, and refusals


def test_the_last_observation_is_of_the_last_close() -> None:
    env = gymnasium.make("ktdeval/KtdFin-v0", windows="2024-04-01:2024-04-02")
    env.reset()
    everything = np.ones(env.action_space.shape, dtype=np.float32)
    everything[10:] = 0.0

    for _ in range(2):
        observation, _, is_ruined, is_last, info = env.step(everything)

    assert (is_ruined, is_last, info["day"]) == (False, True, "day_+2")
    assert info["decided_by"] == "model"
    assert 0.8 < observation["weights"].sum() < 1.0
    assert observation["weights"].sum() + observation["cash"][0] == pytest.approx(1.0, abs=2e-3)

    with pytest.raises(UsageError, match="call reset"):
        env.step(everything)


def test_an_option_that_does_not_fit_is_refused() -> None:
    assert errors_with(
        partial(gymnasium.make, "ktdeval/KtdFin-v0"),
        {"task": "blinded_memory_only"},
        {"lookback": 5},
        {"windows": ["W1", "W2"]},
        {"task": "blinded_fixed_candidates"},
    ) == snapshot("""\
UsageError: task blinded_memory_only lists no candidates at its first close; choose a task that shows a table of candidates, such as blinded_fixed_candidate or market_blinded
UsageError: lookback: the environment shows what the task shows; leave it out
UsageError: windows: W1, W2: an environment has one window; use make_vec for several
UsageError: unknown task 'blinded_fixed_candidates'; did you mean 'blinded_fixed_candidate' or 'date_blind_fixed_candidate' or 'blinded_rebased_fixed_candidate'?
""")


def test_wrong_numbers_and_actions_of_many_are_refused() -> None:
    form = TaskForm("a", slots=2, columns=("r_pct",), decides=False)

    assert form.read_action([0.25, 1]) == [0.25, 1.0]

    wrong = ([0.5], [0.5, 1.01], [0.5, np.nan], ["a", "b"], [[0.5, 0.5]])

    assert error_lines(
        lambda: gymnasium.make_vec("ktdeval/KtdFin-v0", num_envs=0),
        lambda: gymnasium.make_vec("ktdeval/KtdFin-v0", num_envs=2, out="x"),
        *(partial(form.read_action, each) for each in wrong),
        lambda: replace(form, decides=True).read_action([0, 3]),
        lambda: form.check_fits(3),
    ) == snapshot("""\
UsageError: num_envs is 0; choose 1 or more
UsageError: out: a vector environment does not support it; make single environments
UsageError: the action must be 2 target weights of 0 to 1, not an array of shape (1,) from 0.5 to 0.5
UsageError: the action must be 2 target weights of 0 to 1, not an array of shape (2,) from 0.5 to 1.01
UsageError: the action must be 2 target weights of 0 to 1, not an array of shape (2,) from nan to nan
UsageError: the action must be 2 target weights of 0 to 1, not an array of <U1 of shape (2,)
UsageError: the action must be 2 target weights of 0 to 1, not an array of shape (1, 2) from 0.5 to 0.5
UsageError: the action must be 2 of 0 (SELL), 1 (HOLD), 2 (BUY), not an array of shape (2,) from 0 to 3
DataError: task a lists 3 assets, and the environment has 2 slots; state the most that it lists as `shown` in its task file
""")
