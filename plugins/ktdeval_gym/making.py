"""Makers of the environments that `gymnasium.make` and `gymnasium.make_vec` call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ktdeval.errors import UsageError
from ktdeval.tasks import Window
from ktdeval.values.fields import user_path
from ktdeval_gym.broker import BrokerEnv, BrokerOptions
from ktdeval_gym.choice import form_problem
from ktdeval_gym.opening import OpenedTask, TaskChoice
from ktdeval_gym.recording import EpisodeWriter, RunWriter, no_writer
from ktdeval_gym.rewards import RewardConfig
from ktdeval_gym.simulation import AssetMarket, TradingSimulation
from ktdeval_gym.task_env import TaskEnv
from ktdeval_gym.trading import TradingEnv, TradingVectorEnv, prior_scale

TRADING_TASK = "investorbench_msft_history"
TRADING_DATA = "synthetic_investorbench"
KTDFIN_TASK = "blinded_fixed_candidate"
DEFAULT_LOOKBACK = 10
_CHOICE = ("data", "data_args", "windows", "seed")
_REWARD = {"reward": "name", "eta": "eta", "cost_bps": "cost_bps"}
_OTHERS = ("lookback", "out", "render_mode")


def make_trading(task: str = TRADING_TASK, **options: Any) -> TradingEnv | TaskEnv:
    """Make `ktdeval/Trading-v0`: a task on any market, of one asset or of a portfolio.

    Options: `data`, `data_args`, `windows` (one), `seed`; `reward`, `eta`, `cost_bps`; `lookback`
    (of one asset); `out`; `render_mode`. Raises KtdevalError: the task or an option does not fit.
    """
    _check_options(options)
    if task == TRADING_TASK:
        options.setdefault("data", TRADING_DATA)

    opened = OpenedTask.of(_choice(task, options))
    window = _one_window(opened)
    reward = _reward(options)
    writer = _writer(opened, window, options.get("out"))
    render_mode = options.get("render_mode")
    if form_problem(dict(opened.task.describe())) is None:
        market = AssetMarket.of(opened.task, opened.snapshot)
        simulation = _simulation(market, window, options.get("lookback", DEFAULT_LOOKBACK))
        return TradingEnv(simulation, reward, render_mode, writer)

    if "lookback" in options:
        raise UsageError(f"lookback: task {task} is not about one asset; leave it out")
    return TaskEnv(opened, window, reward, render_mode, writer)


def make_trading_vector(
    num_envs: int | None = None, task: str = TRADING_TASK, **options: Any
) -> TradingVectorEnv:
    """Make the vector form of `ktdeval/Trading-v0` for one asset: one environment for each window
    chosen, or `num_envs` of them, over the windows in turn. Options as of `make_trading`, without
    `out` and `render_mode`.
    """
    options.pop("vectorization_mode", None)
    _check_options(options)
    refused = [name for name in ("out", "render_mode") if options.get(name) is not None]
    if refused:
        raise UsageError(f"{refused[0]}: a vector environment has none; make single ones")
    if task == TRADING_TASK:
        options.setdefault("data", TRADING_DATA)

    opened = OpenedTask.of(_choice(task, options))
    market = AssetMarket.of(opened.task, opened.snapshot)
    lookback = options.get("lookback", DEFAULT_LOOKBACK)
    simulations = [_simulation(market, window, lookback) for window in opened.windows]
    size = num_envs or len(simulations)
    return TradingVectorEnv(
        [simulations[index % len(simulations)] for index in range(size)], _reward(options)
    )


def make_ktdfin(task: str = KTDFIN_TASK, **options: Any) -> TaskEnv:
    """Make `ktdeval/KtdFin-v0`: a task of the KTD-Fin family, on A-shares. Options as of
    `make_trading`, without `lookback`.
    """
    _check_options(options)
    if "lookback" in options:
        raise UsageError("lookback: KtdFin-v0 shows what the task shows; leave it out")

    opened = OpenedTask.of(_choice(task, options))
    window = _one_window(opened)
    writer = _writer(opened, window, options.get("out"))
    return TaskEnv(opened, window, _reward(options), options.get("render_mode"), writer)


def make_broker(**options: Any) -> BrokerEnv:
    """Make `ktdeval/Broker-v0`: the broker of the QFinZero services. Options: those of
    `BrokerOptions`, `reward`, `eta`, `cost_bps` and `render_mode`.
    """
    reward = _reward(options)
    render_mode = options.pop("render_mode", None)
    for name in _REWARD:
        options.pop(name, None)

    try:
        chosen = BrokerOptions(**options)
    except TypeError as error:
        raise UsageError(f"ktdeval/Broker-v0: {error}") from error
    return BrokerEnv(chosen, reward, render_mode)


def _check_options(options: Mapping[str, Any]) -> None:
    known = {*_CHOICE, *_REWARD, *_OTHERS}
    unknown = sorted(options.keys() - known)
    if unknown:
        raise UsageError(f"no option {unknown[0]}; there are {', '.join(sorted(known))}")


def _choice(task: str, options: Mapping[str, Any]) -> TaskChoice:
    given = {name: options[name] for name in _CHOICE if name in options}
    windows = given.get("windows", ())
    if isinstance(windows, str):
        given["windows"] = (windows,)
    return TaskChoice(task, **given)


def _reward(options: Mapping[str, Any]) -> RewardConfig:
    return RewardConfig(**{to: options[name] for name, to in _REWARD.items() if name in options})


def _one_window(opened: OpenedTask) -> Window:
    """Return the window of a single environment: the first of the task's own, or the one named."""
    windows: Sequence[Window] = opened.windows
    if opened.choice.windows and len(windows) > 1:
        named = ", ".join(window.name for window in windows)
        raise UsageError(
            f"windows: {named}: an environment has one; make_vec has one for each of one asset"
        )
    return windows[0]


def _simulation(market: AssetMarket, window: Window, lookback: int) -> TradingSimulation:
    scale = prior_scale(market, window)
    return TradingSimulation(market.task, market.snapshot, window, lookback, scale, market)


def _writer(opened: OpenedTask, window: Window, out: str | Path | None) -> EpisodeWriter:
    if out is None:
        return no_writer
    return RunWriter(user_path(str(out)), opened.choice, window, opened.plugins)
