"""Steps a second of the vector environment, beside a loop over plain numbers and a peer.

The loop is one environment in bare NumPy without lots, costs, integers or checks: position times
return. The peer is `gym-trading-env` (`pip install gym-trading-env`), left out where it is not
installed. On a task of several assets, many accounts at once are compared with a single one. Needs
the extra `gym`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
from figures import Figure, Scale

from ktdeval.registry import load_plugins
from ktdeval.runner import open_snapshot
from ktdeval.task_api import Window

TASK, DATA = "investorbench_msft_history", "synthetic_investorbench"
LOOKBACK = 10
STEPS: dict[Scale, int] = {"quick": 50, "usual": 2_000, "full": 20_000}
ENVIRONMENTS = 1024
ROUNDS = 3
PORTFOLIO_TASK = "blinded_fixed_candidate"
PORTFOLIO_WINDOW = "W1"
PORTFOLIO_STEPS: dict[Scale, int] = {"quick": 4, "usual": 40, "full": 42}
PORTFOLIOS = 64


def figures(scale: Scale) -> list[Figure]:
    """Return the figures; empty where Gymnasium is not installed."""
    if find_spec("gymnasium") is None:
        return []

    steps = STEPS[scale]
    world = World()
    rates: dict[str, list[float]] = {}
    for _ in range(ROUNDS):  # sides take turns, so that a busy minute hits all
        for name, (size, run) in world.sides().items():
            number = max(10, steps if size == 1 else steps // 20)
            began = time.process_time()
            run(number)
            rates.setdefault(name, []).append(number * size / (time.process_time() - began))

    best = {name: max(values) for name, values in rates.items()}
    ours = best.pop("vector")
    return [*(figure(name, ours, rate) for name, rate in best.items()), portfolio_figure(scale)]


def portfolio_figure(scale: Scale) -> Figure:
    """Return the ratio of many portfolios at once to a single one, on a task of KTD-Fin."""
    from ktdeval_gym.open_task import OpenedTask, TaskChoice  # noqa: PLC0415
    from ktdeval_gym.portfolio_vector import PortfolioVectorEnv  # noqa: PLC0415
    from ktdeval_gym.task_env import TaskEnv  # noqa: PLC0415

    opened = OpenedTask.of(TaskChoice(PORTFOLIO_TASK, windows=(PORTFOLIO_WINDOW,)))
    (window,) = opened.windows
    steps = PORTFOLIO_STEPS[scale]
    many = PortfolioVectorEnv(opened, [window] * PORTFOLIOS)
    single = TaskEnv(opened, window)
    many.reset()
    single.reset()
    actions = [many.action_space.sample() for _ in range(steps)]
    began = time.process_time()
    for action in actions:
        many.step(action)
    ours = PORTFOLIOS * steps / (time.process_time() - began)

    began = time.process_time()
    for action in actions:
        single.step(action[0])
    rate = steps / (time.process_time() - began)

    return Figure(
        group="gym",
        name="steps a second of portfolios at once",
        unit="steps/s",
        ours=ours,
        peer=rate,
        peer_name="single TaskEnv",
        ratio=ours / rate,
        direction="at_least",
        bar=5.0,
        note=f"{PORTFOLIOS} accounts of {PORTFOLIO_TASK}, {PORTFOLIO_WINDOW}, first {steps} steps; CPU time",
    )


def figure(peer: str, ours: float, rate: float) -> Figure:
    """Return the ratio of the vector environment's rate to that of another side."""
    return Figure(
        group="gym",
        name="steps a second of the vector environment",
        unit="steps/s",
        ours=ours,
        peer=rate,
        peer_name=peer,
        ratio=ours / rate,
        direction="at_least",
        bar=1.0 if peer != "bare loop" else None,
        note=f"{ENVIRONMENTS} windows at once; CPU time, best of {ROUNDS}",
    )


class World:
    """One market and window for all sides."""

    def __init__(self) -> None:
        from ktdeval_gym.single_asset_env import TradingEnv, TradingVectorEnv, prior_scale  # noqa: PLC0415
        from ktdeval_gym.single_asset_simulation import AssetMarket, TradingSimulation  # noqa: PLC0415

        plugins = load_plugins()
        snapshot = open_snapshot(plugins, DATA, {})
        task = plugins.make_task(TASK)
        market = AssetMarket.of(task, snapshot)
        days = snapshot.days[market.traded]
        self.closes = market.closes
        self.rng = np.random.default_rng(0)

        def simulation(first: int) -> TradingSimulation:
            window = Window("bench", str(days[first]), str(days[first + 60]))
            scale = prior_scale(market, window)
            return TradingSimulation(task, snapshot, window, LOOKBACK, scale, market)

        starts = [15 + number % (len(days) - 80) for number in range(ENVIRONMENTS)]
        self.vector = TradingVectorEnv([simulation(start) for start in starts])
        self.single = TradingEnv(simulation(15))

    def sides(self) -> dict[str, tuple[int, Callable[[int], None]]]:
        """Return the environments at once, and a function of a number of steps, of each side."""
        sides: dict[str, tuple[int, Callable[[int], None]]] = {
            "vector": (ENVIRONMENTS, self.run_vector),
            "single TradingEnv": (1, lambda steps: run_env(self.single, steps)),
            "bare loop": (1, self.run_loop),
        }
        peer = make_peer(self.closes)
        if peer is not None:
            sides["gym-trading-env"] = (1, lambda steps: run_env(peer, steps))
        return sides

    def run_vector(self, steps: int) -> None:
        """Step all windows."""
        self.vector.reset()
        actions = self.rng.integers(0, 3, (steps, ENVIRONMENTS))
        for step in range(steps):
            self.vector.step(actions[step])

    def run_loop(self, steps: int) -> None:
        """Step one window without lots, costs, integers and checks."""
        returns = np.diff(np.log(self.closes))
        position, nav, row = 0, 0.0, LOOKBACK
        for action in self.rng.integers(0, 3, steps).tolist():
            position = action - 1
            nav += math.log1p(position * math.expm1(returns[row]))
            row = row + 1 if row + 1 < len(returns) else LOOKBACK
            np.append(returns[row - LOOKBACK : row], position)


def run_env(env: Any, steps: int) -> None:
    """Step a Gymnasium environment, which begins again where it ends."""
    env.reset(seed=0)
    env.action_space.seed(0)
    size = int(env.action_space.n)
    actions = np.random.default_rng(0).integers(0, size, steps).tolist()
    for action in actions:
        *_, is_terminated, is_truncated, _ = env.step(action)
        if is_terminated or is_truncated:
            env.reset(seed=0)


def make_peer(closes: np.ndarray) -> Any:
    """Return gym-trading-env on the same closes, with the same three positions; None without it."""
    if find_spec("gym_trading_env") is None:
        return None

    from gym_trading_env.environments import TradingEnv  # noqa: PLC0415

    table = pd.DataFrame(dict.fromkeys(("open", "high", "low", "close"), closes))
    table.index = pd.date_range("2015-01-01", periods=len(closes))
    table["volume"] = 1.0
    table["feature_return"] = table["close"].pct_change().fillna(0.0)
    return TradingEnv(df=table, positions=[-1, 0, 1], windows=LOOKBACK, verbose=0)
