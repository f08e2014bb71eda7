"""Share of the always-right policy's reward that A2C, PPO and DQN reach on a market with a planted
signal, on days not trained on.

    python benchmarks/planted_signal.py [SEEDS] [STEPS]

A price falls after a day that rose and rises after one that fell, by sizes that are drawn; under
noise it does the contrary on a fifth of the days. With noise of a half, directions are drawn: a
placebo, in which nothing can be learned. The always-right policy follows the plant; in the placebo,
the prices. Needs the extra `rl`.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import numpy as np

from ktdeval.market import Instrument, MarketSnapshot, SnapshotMeta
from ktdeval.registry import load_plugins
from ktdeval.task_api import Window
from ktdeval.values import encode_canonical
from ktdeval_gym.open_task import OpenedTask, TaskChoice
from ktdeval_gym.policies.policy import Algorithm, read_policy
from ktdeval_gym.policies.policy_training import PolicyTraining
from ktdeval_gym.rl.policy_env import PolicyEnv
from ktdeval_gym.rl.train import learn, policy_file

TASK = "investorbench_msft_history"
DAYS, TRAINED = 1000, 500
LATER = (TRAINED + 1, DAYS - 1)
PLACEBO = 0.5  # share of days against the plant: directions are drawn
SIZES = (0.004, 0.016)  # of a day's log return


def planted_market(
    noise: float, seed: int = 0, days: int = DAYS
) -> tuple[MarketSnapshot, np.ndarray]:
    """Market of MSFT alone, for the tasks of InvestorBench, and [days] the direction (+1, -1)
    planted for each day.
    """
    rng = np.random.default_rng(seed)
    sizes, kept = rng.uniform(*SIZES, days), np.where(rng.random(days) < noise, -1, 1)
    planted, returns = np.ones(days, dtype=int), np.zeros(days)
    for day in range(1, days):
        planted[day] = -1 if returns[day - 1] > 0 else 1
        returns[day] = planted[day] * kept[day] * sizes[day]
    close = np.round(100 * np.exp(np.cumsum(returns)), 4)[:, None]
    start = np.datetime64("2015-01-01")
    market = MarketSnapshot(
        meta=SnapshotMeta(
            name=f"planted-{noise:g}-{seed}",
            source="a planted signal",
            synthetic=True,
            has_factor=True,
            benchmark="",
        ),
        days=np.arange(start, start + days),
        codes=("MSFT",),
        names=("Planted",),
        industries=("unknown",),
        **dict.fromkeys(("open", "high", "low", "close"), close),
        volume=np.full_like(close, 1e6),
        amount=1e6 * close,
        factor=np.ones_like(close),
        member=np.ones(close.shape, dtype=bool),
        indices={},
        index_names={},
        instruments=(Instrument("stock", "USD", "close_fill_stock"),),
        rules={"close_fill_stock": load_plugins().venues()["close_fill_stock"]},
    )
    return market, planted


def training_of(
    noise: float, seed: int, rows: tuple[int, int], scale: float | None = None
) -> PolicyTraining:
    """Return the training of `TASK` on rows of a planted market, with features of ten returns."""
    market, _ = planted_market(noise, seed)
    days = f"{market.days[rows[0]]}:{market.days[rows[1]]}"
    span = Window(days, *days.split(":"))
    plugins = load_plugins()
    choice = TaskChoice(TASK, windows=(days,))
    opened = OpenedTask(choice, plugins, plugins.make_task(TASK), market, (span,))
    return PolicyTraining.of(opened, 10, scale)


def reward_of(env: PolicyEnv, act: Callable[[np.ndarray, int], int]) -> float:
    """Sum of rewards of a way to act, which is given the features and the row of the close."""
    observation, _ = env.reset()
    total, is_over = 0.0, False
    while not is_over:
        action = act(observation, env.account.row)
        observation, reward, is_ruined, is_last, _ = env.step(action)
        total, is_over = total + reward, is_ruined or is_last
    return total


def share(algorithm: Algorithm, noise: float, seed: int, steps: int = 10_000) -> float:
    """Reward of a trained policy, stored and read again, on later days: as a share of the
    always-right policy's.
    """
    trained = training_of(noise, seed, (11, TRAINED))
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        Path(file.name).write_text(
            encode_canonical(policy_file(trained, learn(trained, algorithm, steps, seed)))
        )
        policy = read_policy(Path(file.name))
    market, planted = planted_market(noise, seed)
    right = planted
    if noise == PLACEBO:
        right = np.sign(np.diff(market.close[:, 0], prepend=market.close[0, 0])).astype(int)
    later = PolicyEnv(training_of(noise, seed, LATER, trained.scale))
    got = reward_of(later, lambda features, _row: int(policy.values(features).argmax()))
    return got / reward_of(later, lambda _features, row: 1 + int(right[row + 1]))


def main(seeds: int = 3, steps: int = 10_000) -> None:
    """Print the shares of each algorithm, by noise."""
    print(
        f"share of the always-right policy's reward on {DAYS - 1 - TRAINED} later days, {steps:,}"
        f" steps, seeds 0 to {seeds - 1}"
    )
    for noise in (0.0, 0.2, PLACEBO):
        for algorithm in get_args(Algorithm):
            began = time.perf_counter()
            shares = sorted(share(algorithm, noise, seed, steps) for seed in range(seeds))
            told = " ".join(f"{one:7.1%}" for one in shares)
            print(
                f"noise {noise:3.0%}  {algorithm}  {told}  {time.perf_counter() - began:5.1f} s",
                flush=True,
            )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
