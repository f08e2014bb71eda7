"""Open a task for an environment, with its plugins, market, windows and episodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ktdeval.attribution import filled_forward, market_levels
from ktdeval.errors import DataError, UsageError
from ktdeval.harness import ModelRequest, Reply
from ktdeval.market import FloatArray, MarketSnapshot
from ktdeval.registry import Plugins, load_plugins
from ktdeval.runner import RunConfig, choose_windows, make_plan, open_snapshot
from ktdeval.task_api import EpisodeSpec, Task, Window, is_scoring, market_problem
from ktdeval.values import sha256_hex

MODEL = "gym/actions"
_KEY_DIGITS = 32


def mask_key_of(seed: int) -> str:
    """Return the mask key for handles, derived from a seed, with 32 hexadecimal digits."""
    return sha256_hex(f"ktdeval_gym mask {seed}".encode())[:_KEY_DIGITS]


@dataclass(frozen=True)
class TaskChoice:
    """Task, market and seed for an environment."""

    task: str
    data: str = "synthetic"  #: snapshot folder, or data provider
    data_args: Mapping[str, Any] = field(default_factory=dict)
    windows: Sequence[str] = ()  #: names, globs, or FIRST:LAST days; empty: the task's own windows
    seed: int = 0  #: seed for the mask's handles

    def config(self, window: Window, **options: Any) -> RunConfig:
        """Return the config of a run with one episode."""
        name = window.name
        return RunConfig(
            model=MODEL,
            tasks=(self.task,),
            data=self.data,
            data_args=self.data_args,
            windows=(name,),
            seed=self.seed,
            mask_key=mask_key_of(self.seed),
            **options,
        )


@dataclass(frozen=True)
class OpenedTask:
    """Trading task with its market and the selected windows."""

    choice: TaskChoice
    plugins: Plugins
    task: Task
    snapshot: MarketSnapshot
    windows: tuple[Window, ...]

    @cached_property
    def market_levels(self) -> FloatArray:
        """[T] levels with which a reward is compared: adjusted closes of the task's only asset, or
        levels of the market.
        """
        described: dict[str, Any] = dict(self.task.describe())
        codes: Sequence[str] = described.get("assets") or ()
        if len(codes) != 1:
            return market_levels(self.snapshot)

        asset = self.snapshot.asset_index[codes[0]]
        closes = self.snapshot.close[:, [asset]] * self.snapshot.factor[:, [asset]]
        return filled_forward(closes)[:, 0]

    @classmethod
    def of(cls, choice: TaskChoice, plugins: Plugins | None = None) -> OpenedTask:
        """Open a task.

        Raises KtdevalError if the name is unknown, if the task does not trade, or if the market
        lacks data that the task needs.
        """
        plugins = plugins or load_plugins()
        task = plugins.make_task(choice.task)
        if is_scoring(task):
            raise UsageError(
                f"task {choice.task} is not a trading task; choose one (`ktdeval list tasks`)"
            )

        windows = choose_windows(task, tuple(choice.windows))
        snapshot = open_snapshot(plugins, choice.data, dict(choice.data_args))
        problem = market_problem(task, snapshot)
        if problem:
            raise DataError(problem)

        chosen = tuple(window for window in windows if window is not None)
        return cls(choice, plugins, task, snapshot, chosen)

    def spec(self, window: Window) -> EpisodeSpec:
        """Return the spec of a window's episode."""
        config = self.choice.config(window, model_args={"file": "-"})
        plan = make_plan(config, self.plugins, {self.task.name: self.task}, self.snapshot, None)
        return plan.specs[0]


class NoModel:
    """Model that is never called."""

    def reply(self, request: ModelRequest) -> Reply:
        """Raise UsageError."""
        raise UsageError(f"step {request.step} was asked of no model")
