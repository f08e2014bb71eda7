"""What a policy is trained on: a task on one asset, a range of days and the scale of returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ktdeval.errors import DataError, UsageError
from ktdeval.market import window_rows
from ktdeval.task_api import Window
from ktdeval_gym.open_task import OpenedTask
from ktdeval_gym.policies.training_checks import (
    asset_column,
    closes_and_trades,
    form_problem,
    span_problem,
)


@dataclass(frozen=True)
class PolicyTraining:
    """A task on one asset that a policy is trained on."""

    opened: OpenedTask
    span: Window  #: first and last fill day
    lookback: int  #: number of daily returns that the policy sees
    scale: float  #: divisor of the log returns in the features

    @classmethod
    def of(cls, opened: OpenedTask, lookback: int, scale: float | None = None) -> PolicyTraining:
        """Return the training in the first window of an opened task. `scale`: default, the standard
        deviation of the window's log returns.

        Raises UsageError if the task does not ask for decisions on one asset; DataError if the
        market lacks the window, or `lookback` returns before it, or if the price does not move.
        """
        task, snapshot, span = opened.task, opened.snapshot, opened.windows[0]
        unfit = form_problem(dict(task.describe()))
        if unfit:
            advice = f"`ktdeval train rl --task {task.name} …` names tasks that do"
            raise UsageError(f"task {task.name} {unfit}; {advice}")

        asset = asset_column(task, snapshot)
        closes, traded = closes_and_trades(snapshot, asset)
        start, stop = window_rows(snapshot.days, span.first, span.last)
        # the first fill is decided at the previous close
        within = closes[traded[(traded >= start - 1) & (traded < stop)]]
        problem = span_problem(snapshot, asset, lookback, span, len(within))
        if problem:
            raise DataError(f"task {task.name}: {problem}")

        scale = scale or float(np.std(np.diff(np.log(within))))
        if scale == 0.0:
            raise DataError(
                f"task {task.name}: the price does not move from {span.first} to {span.last};"
                " choose other days"
            )
        return cls(opened, span, lookback, scale)

    @property
    def facts(self) -> dict[str, Any]:
        """Fields of a policy file that describe the training."""
        return {
            "task": self.opened.task.name,
            "snapshot": self.opened.snapshot.id,
            "first": self.span.first,
            "last": self.span.last,
            "hold": self.opened.task.describe()["hold"],
            "lookback": self.lookback,
            "scale": self.scale,
        }
