"""States and actions of multi-asset tasks, as arrays of fixed size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
import msgspec
import numpy as np
import numpy.typing as npt

from ktdeval.errors import DataError, UsageError
from ktdeval.observation import ObservedAsset, ObservedState
from ktdeval_gym.action_submissions import Decision, tradables
from ktdeval_gym.open_task import OpenedTask
from ktdeval_gym.policies.policy import DECISIONS

Observed = dict[str, npt.NDArray[Any]]
FIGURE_LIMIT = 10.0
WEIGHT_LIMIT = 10.0
_PER_CENT = "_pct"
_PER_FIGURE = 10.0  #: change in per cent that is scaled to 1


class _Described(msgspec.Struct):
    """Fields of a market task's description that limit how many assets it lists."""

    shown: int | None = None  #: maximum number of assets in a step's table
    assets: tuple[str, ...] = ()  #: codes of the assets shown; empty: all members


@dataclass(frozen=True)
class TaskForm:
    """Sizes of a task's observations and actions."""

    task: str
    slots: int  #: maximum number of assets that an action refers to
    columns: tuple[str, ...]  #: names of each asset's figures, in per cent
    decides: bool  #: whether the task asks for SELL, HOLD or BUY instead of orders

    def read_action(self, action: Any) -> Sequence[Decision | float]:
        """Return an action as decisions or target weights, one for each slot. Raises UsageError if
        the action is invalid.
        """
        if not self.decides:
            return weights_in(action, self.slots)

        given = np.asarray(action)
        if not (_is_row(given, self.slots) and np.isin(given, range(len(DECISIONS))).all()):
            expected = f"{self.slots} of 0 (SELL), 1 (HOLD), 2 (BUY)"
            raise UsageError(f"the action must be {expected}, not {_shown_action(given)}")
        return [DECISIONS[int(choice)] for choice in given.tolist()]

    def empty(self) -> Observed:
        """Return the arrays of an observation, all zero."""
        shape = (self.slots, len(self.columns))
        return {
            "figures": np.zeros(shape, dtype=np.float32),
            "known": np.zeros(shape, dtype=np.int8),
            "weights": np.zeros(self.slots, dtype=np.float32),
            "cash": np.zeros(1, dtype=np.float32),
        }

    def check_fits(self, number: int) -> None:
        """Raise DataError if more assets are listed at a close than there are slots."""
        if number > self.slots:
            raise DataError(
                f"task {self.task} lists {number} assets, and the environment has {self.slots}"
                " slots; state the most that it lists as `shown` in its task file"
            )


def weights_in(action: Any, number: int) -> list[float]:
    """Return an action as `number` target weights, rounded to float32.

    Raises UsageError if the action has another length, or if a weight is outside 0 to 1.
    """
    given = np.asarray(action)
    if not (_is_row(given, number) and bool(((given >= 0) & (given <= 1)).all())):
        raise UsageError(
            f"the action must be {number} target weights of 0 to 1, not {_shown_action(given)}"
        )
    return [float(weight) for weight in given.astype(np.float32)]


def _is_row(given: npt.NDArray[Any], number: int) -> bool:
    """Return whether an array has one axis of `number` numbers."""
    return given.shape == (number,) and given.dtype.kind in "iuf"


def _shown_action(given: npt.NDArray[Any]) -> str:
    """Return a description of an action, for a message."""
    if given.dtype.kind not in "iuf" or given.size == 0:
        return f"an array of {given.dtype} of shape {given.shape}"
    return f"an array of shape {given.shape} from {given.min():g} to {given.max():g}"


def form_of(opened: OpenedTask, state: ObservedState) -> TaskForm:
    """Return the form of a task, given its first state. Raises UsageError if the state lists no
    candidates.
    """
    task = opened.task
    if not state.candidates:
        raise UsageError(
            f"task {task.name} lists no candidates at its first close; choose a task that shows"
            " a table of candidates, such as blinded_fixed_candidate or market_blinded"
        )

    described = msgspec.convert(dict(task.describe()), _Described)
    limits = state.limits
    listed = described.shown or task.harness.max_candidates
    held = 0 if limits.asks_decisions else limits.max_positions or 0
    assets = len(described.assets) or len(opened.snapshot.codes)
    return TaskForm(
        task=task.name,
        slots=min(listed + held, assets),
        columns=figure_columns(tradables(state)),
        decides=limits.asks_decisions,
    )


def spaces_of(form: TaskForm) -> tuple[gymnasium.spaces.Dict, Any]:
    """Return the spaces of observations and actions."""
    box = gymnasium.spaces.Box
    shape = (form.slots, len(form.columns))
    observations = gymnasium.spaces.Dict(
        {
            "figures": box(-FIGURE_LIMIT, FIGURE_LIMIT, shape, np.float32),
            "known": gymnasium.spaces.MultiBinary(shape),
            "weights": box(-WEIGHT_LIMIT, WEIGHT_LIMIT, (form.slots,), np.float32),
            "cash": box(-WEIGHT_LIMIT, WEIGHT_LIMIT, (1,), np.float32),
        }
    )
    if form.decides:
        return observations, gymnasium.spaces.MultiDiscrete([len(DECISIONS)] * form.slots)
    return observations, box(0.0, 1.0, (form.slots,), np.float32)


def figure_columns(assets: Sequence[ObservedAsset]) -> tuple[str, ...]:
    """Return the columns of the shown assets whose values are in per cent, in order."""
    columns: dict[str, None] = {}
    for asset in assets:
        columns.update(dict.fromkeys(name for name in asset.cells if name.endswith(_PER_CENT)))
    return tuple(columns)


def observe_state(state: ObservedState, form: TaskForm) -> Observed:
    """Return a state as arrays. Raises DataError if it lists more assets than there are slots."""
    arrays = form.empty()
    shown = tradables(state)
    form.check_fits(len(shown))
    write_figures(shown, form.columns, arrays["figures"], arrays["known"])
    for slot, asset in enumerate(shown):
        position = state.positions.get(asset.label)
        if position is not None:
            arrays["weights"][slot] = cut_weight(position.weight or 0.0)

    arrays["cash"][0] = cut_weight(state.account.cash_weight or 0.0)
    return arrays


def write_figures(
    assets: Sequence[ObservedAsset],
    columns: Sequence[str],
    figures: npt.NDArray[np.float32],
    known: npt.NDArray[np.int8],
) -> None:
    """Write the figures of assets, one row each, and a mask that marks known figures."""
    for slot, asset in enumerate(assets):
        for index, name in enumerate(columns):
            value = asset.figure(name)
            if value is not None:
                scaled = value / _PER_FIGURE
                figures[slot, index] = min(max(scaled, -FIGURE_LIMIT), FIGURE_LIMIT)
                known[slot, index] = 1


def cut_weight(weight: float) -> float:
    """Return a share of NAV, clipped to the range of its space."""
    return min(max(weight, -WEIGHT_LIMIT), WEIGHT_LIMIT)
