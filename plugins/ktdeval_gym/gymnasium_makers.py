"""Functions that make the environments, called by `gymnasium.make` and `gymnasium.make_vec`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from typing import Any

from gymnasium.vector import VectorEnv

from ktdeval.errors import UsageError
from ktdeval.registry import load_plugins
from ktdeval.task_api import Window
from ktdeval.values import near_matches, user_path
from ktdeval_gym.broker_env import BrokerEnv
from ktdeval_gym.broker_session import BrokerOptions, open_samples
from ktdeval_gym.open_task import OpenedTask, TaskChoice
from ktdeval_gym.portfolio_vector import make_task_vector
from ktdeval_gym.recording import (
    EpisodeWriter,
    RunWriter,
    SessionRunWriter,
    SessionWriter,
    no_session_writer,
    no_writer,
)
from ktdeval_gym.rewards import RewardConfig
from ktdeval_gym.task_env import TaskEnv

TRADING_TASK = "investorbench_msft_history"
TRADING_DATA = "synthetic_investorbench"
KTDFIN_TASK = "blinded_fixed_candidate"
_CHOICE = ("data", "data_args", "windows", "seed")
_REWARD = {"reward": "name", "eta": "eta", "cost_bps": "cost_bps"}
_OTHERS = ("out", "render_mode")


def make_trading(task: str = TRADING_TASK, **options: Any) -> TaskEnv:
    """Make `ktdeval/Trading-v0`: a task on any market, with one asset or a portfolio.

    Options: `data`, `data_args`, `windows` (one), `seed`; `reward`, `eta`, `cost_bps`; `out`;
    `render_mode`. Raises KtdevalError if the task or an option is invalid.
    """
    if task == TRADING_TASK:
        options.setdefault("data", TRADING_DATA)
    return _task_env(task, options)


def make_trading_vector(
    num_envs: int | None = None, task: str = TRADING_TASK, **options: Any
) -> VectorEnv:
    """Make the vector form of `ktdeval/Trading-v0`: one environment for each selected window, or
    `num_envs` environments that cycle through the windows. The options are those of `make_trading`,
    without `out` and `render_mode`.
    """
    if task == TRADING_TASK:
        options.setdefault("data", TRADING_DATA)
    return _task_vector(num_envs, task, options)


def make_ktdfin(task: str = KTDFIN_TASK, **options: Any) -> TaskEnv:
    """Make `ktdeval/KtdFin-v0`: a task of the KTD-Fin family, on A-shares. The options are those of
    `make_trading`.
    """
    return _task_env(task, options)


def make_ktdfin_vector(
    num_envs: int | None = None, task: str = KTDFIN_TASK, **options: Any
) -> VectorEnv:
    """Make the vector form of `ktdeval/KtdFin-v0`, in the same way as `make_trading_vector`."""
    return _task_vector(num_envs, task, options)


def make_broker(**options: Any) -> BrokerEnv:
    """Make `ktdeval/Broker-v0`: the broker of the QFinZero services. The options are the fields of
    `BrokerOptions`, and `reward`, `eta`, `cost_bps` and `render_mode`.
    """
    own = {each.name for each in fields(BrokerOptions)}
    _check_known(options, {*own, *_REWARD, "render_mode"})
    chosen = BrokerOptions(**{name: options[name] for name in options if name in own})
    chosen.check()
    reward = _reward(options)
    writer: SessionWriter = no_session_writer
    if chosen.out is not None:
        writer = SessionRunWriter(user_path(str(chosen.out)), chosen)

    samples = open_samples(chosen, load_plugins())
    return BrokerEnv(chosen, samples, reward, options.get("render_mode"), writer)


def _check_known(options: Mapping[str, Any], known: Collection[str]) -> None:
    """Raise UsageError for an unknown option."""
    unknown = sorted(options.keys() - set(known))
    if unknown:
        near = near_matches(unknown[0], known)
        raise UsageError(f"no option {unknown[0]}{near}; choose from {', '.join(sorted(known))}")


def _check_options(options: Mapping[str, Any]) -> None:
    if "lookback" in options:
        raise UsageError("lookback: the environment shows what the task shows; leave it out")
    _check_known(options, {*_CHOICE, *_REWARD, *_OTHERS})


def _in_turn(windows: Sequence[Window], number: int | None) -> list[Window]:
    """Return `number` windows, cycling through the given windows; without a number, return each
    window once.
    """
    if number is not None and number < 1:
        raise UsageError(f"num_envs is {number}; choose 1 or more")
    size = number or len(windows)
    return [windows[index % len(windows)] for index in range(size)]


def _choice(task: str, options: Mapping[str, Any]) -> TaskChoice:
    given = {name: options[name] for name in _CHOICE if name in options}
    windows = given.get("windows", ())
    if isinstance(windows, str):
        given["windows"] = (windows,)
    return TaskChoice(task, **given)


def _reward(options: Mapping[str, Any]) -> RewardConfig:
    return RewardConfig(**{to: options[name] for name, to in _REWARD.items() if name in options})


def _one_window(opened: OpenedTask) -> Window:
    """Return the window for a single environment: the named window, or the first of the task's own
    windows.
    """
    windows: Sequence[Window] = opened.windows
    if opened.choice.windows and len(windows) > 1:
        named = ", ".join(window.name for window in windows)
        raise UsageError(
            f"windows: {named}: an environment has one window; use make_vec for several"
        )
    return windows[0]


def _task_env(task: str, options: Mapping[str, Any]) -> TaskEnv:
    """Make the single environment of a task."""
    _check_options(options)
    opened = OpenedTask.of(_choice(task, options))
    window = _one_window(opened)
    writer: EpisodeWriter = no_writer
    if options.get("out") is not None:
        writer = RunWriter(user_path(str(options["out"])), opened.choice, window, opened.plugins)
    return TaskEnv(opened, window, _reward(options), options.get("render_mode"), writer)


def _task_vector(num_envs: int | None, task: str, options: dict[str, Any]) -> VectorEnv:
    """Make the vector environment of a task. Raises UsageError for an option that vector
    environments do not have.
    """
    options.pop("vectorization_mode", None)
    _check_options(options)
    refused = [name for name in ("out", "render_mode") if options.get(name) is not None]
    if refused:
        raise UsageError(
            f"{refused[0]}: a vector environment does not support it; make single environments"
        )

    opened = OpenedTask.of(_choice(task, options))
    return make_task_vector(opened, _in_turn(opened.windows, num_envs), _reward(options))
