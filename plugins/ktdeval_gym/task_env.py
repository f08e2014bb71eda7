"""Gymnasium environment for any trading task, with the task's own scene, mask and executor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np

from ktdeval.errors import DataError, UsageError
from ktdeval.harness import ModelRequest, ModelTraits, Reply
from ktdeval.keyless import Conversation
from ktdeval.market import FloatArray
from ktdeval.observation import ObservedState
from ktdeval.runner import EpisodeFactory, TradingEpisodeRun
from ktdeval.task_api import EpisodeSpec, Window
from ktdeval.trading import MarketRules, StepRecord
from ktdeval_gym.action_submissions import Decision, submission, tradables
from ktdeval_gym.arrays import Observed, form_of, observe_state, spaces_of
from ktdeval_gym.open_task import OpenedTask
from ktdeval_gym.recording import EpisodeWriter, no_writer
from ktdeval_gym.rewards import RewardConfig, Rewards

Info = dict[str, Any]


class _AskedError(BaseException):
    """The session asks for a submission. As a BaseException, it passes through agent and session,
    which only catch `Exception`.
    """

    def __init__(self, state: ObservedState) -> None:
        super().__init__()
        self.state = state


class _ActionModel:
    """Model that submits an environment's action or, without an action, raises an exception with
    the state shown in the request.
    """

    traits = ModelTraits(is_free=True)

    def __init__(self) -> None:
        self.action: Sequence[Decision | float] | None = None

    def reply(self, request: ModelRequest) -> Reply:
        """Return the submission of the action. Raises _AskedError if no action is set."""
        conversation = Conversation(request)
        if not conversation.is_submission:
            return Reply("No research.")
        if self.action is None:
            raise _AskedError(conversation.observed)
        return submission(conversation, self.action)


class TaskEnv(gymnasium.Env[Observed, Any]):  # type: ignore[misc]  # whose types are not read, so that it need not be installed
    """Environment for a task's episode in one window. The observation comes from the state that a
    model is shown, through the task's mask. The action is submitted in the same way as a model's
    answer.

    Observation, for `slots` assets in the order of `action_submissions.tradables`:

        figures  [slots, F]  figures in per cent / 10, clipped at ±10; 0 where not `known`
        known    [slots, F]  1 where the figure is shown
        weights  [slots]     positions, as shares of NAV, clipped at ±10
        cash     [1]         share of NAV, clipped at ±10

    Action: a target weight from 0 to 1 for each slot (see `bound_weights`), or SELL, HOLD or BUY if
    the task asks for decisions. Slots without an asset are ignored.

    `info`: `nav`, and the labels `day` and `assets` as the mask shows them. For the last step it
    also has `decided_by` (`model`, or the fallback that a task applies to an action that breaks its
    rules) and `rejected`, the number of orders that the executor did not fill.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012 - as Gymnasium declares it

    def __init__(
        self,
        opened: OpenedTask,
        window: Window,
        reward: RewardConfig | None = None,
        render_mode: str | None = None,
        writer: EpisodeWriter = no_writer,
    ) -> None:
        """Raises DataError if the exchange is closed on all days of the window; UsageError if the
        task lists no candidates.
        """
        self.render_mode = render_mode
        self._opened = opened
        self._window = window
        self._write = writer
        self._spec = opened.spec(window)
        tasks = {opened.task.name: opened.task}
        self._factory = EpisodeFactory(tasks, opened.plugins, opened.snapshot)
        self._reward = reward or RewardConfig()
        self._begin()
        self.form = form_of(self._opened, self._state)
        self.observation_space, self.action_space = spaces_of(self.form)

    def _begin(self) -> None:
        self._actor = _ActionModel()
        episode = self._factory.open(self._spec, self._actor)
        assert isinstance(episode, TradingEpisodeRun)
        self._episode = episode
        self._step = 0
        self._is_over = False
        self._nav = _initial_nav(self._opened)
        self._actions: dict[int, Sequence[Decision | float]] = {}
        scale = market_scale(self._opened, self._spec)
        self._rewards = Rewards(self._reward, np.array([scale]))
        self._last: StepRecord | None = None
        self._ask()
        if self._step == episode.total_steps:
            raise DataError(
                f"task {self._opened.task.name}: nothing can be decided in window"
                f" {self._window.name}; choose another"
            )

    def _ask(self) -> None:
        """Advance to the next close with a request, or to the end, and update the state shown
        there.
        """
        while True:
            self._actor.action = None
            try:
                decided = self._episode.decide_step(self._step)
            except _AskedError as asked:
                self._state = asked.state
                return

            if self._step == self._episode.total_steps:
                return
            self._last = self._episode.settle_step(self._step, decided).step
            self._step += 1

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observed, Info]:
        """Restart the episode. Nothing is random, so `seed` has no effect."""
        super().reset(seed=seed, options=options)
        self._begin()
        return self._observation(), self._info()

    def step(self, action: Any) -> tuple[Observed, float, bool, bool, Info]:
        """Submit an action and settle it. Raises UsageError if the action is not in the action
        space, or if the episode is over.
        """
        taken = self.form.read_action(action)
        if self._is_over:
            raise UsageError("the episode is over; call reset()")

        before_row = self._row
        self._actions[self._step] = taken
        self._actor.action = taken
        decided = self._episode.decide_step(self._step)
        record = self._episode.settle_step(self._step, decided).step
        traded = sum(order.notional_minor or 0 for order in record.fills)
        self._last = record
        self._step += 1
        self._ask()

        nav = self._last.nav_minor
        benchmark = benchmark_return(self._opened.market_levels, before_row, self._row)
        reward = self._rewards.of_one(self._nav, nav, traded, benchmark)
        self._nav = nav
        is_last = self._step == self._episode.total_steps
        is_ruined = nav <= 0
        self._is_over = is_last or is_ruined
        if self._is_over:
            limit = None if is_last else self._step
            self._write(self._actions, limit)

        return self._observation(), reward, is_ruined, is_last, self._info()

    @property
    def _row(self) -> int:
        """Row of the current close."""
        if self._last is None:
            first = np.datetime64(self._window.first)
            return int(np.searchsorted(self._opened.snapshot.days, first)) - 1
        return self._opened.snapshot.day_index(self._last.filled_on)

    def _observation(self) -> Observed:
        return observe_state(self._state, self.form)

    def _info(self) -> Info:
        minor = market_minor(self._opened)
        last = self._last
        info: Info = {
            "nav": self._nav / minor,
            "day": self._state.day,
            "assets": tuple(asset.label for asset in tradables(self._state)),
        }
        if last is not None:
            info["decided_by"] = last.provenance
            info["rejected"] = sum(order.status == "rejected" for order in last.orders)

        return info

    def render(self) -> str | None:
        """Return the state as shown by the mask, which is the JSON text in a prompt; None without a
        render mode.
        """
        if self.render_mode is None:
            return None
        return self._state.text


def benchmark_return(levels: FloatArray, before: int, row: int) -> float:
    """Return the log return of the market between two closes, given its [T] `levels`; 0.0 if the
    market has no levels.
    """
    ratio = levels[row] / levels[before]
    return float(np.log(ratio)) if np.isfinite(ratio) and ratio > 0 else 0.0


def market_scale(opened: OpenedTask, spec: EpisodeSpec) -> float:
    """Return the standard deviation of the benchmark's last log returns, at most 250, before the
    first decision of an episode.

    Raises DataError if all returns are equal.
    """
    snapshot = opened.snapshot
    first = int(np.searchsorted(snapshot.days, np.datetime64(spec.span.first))) - 1
    rows = range(max(1, first - 249), first + 1)
    returns = [benchmark_return(opened.market_levels, row - 1, row) for row in rows]
    scale = float(np.std(returns)) if returns else 0.0
    if scale == 0.0:
        raise DataError(
            f"{snapshot.meta.name}: no day before {spec.span.first} moves, so returns have no "
            "scale; choose a later window"
        )
    return scale


def market_minor(opened: OpenedTask) -> int:
    """Return the number of minor units per unit of the market's currency."""
    return MarketRules.of(opened.snapshot, opened.task.trading).minor_per_unit


def _initial_nav(opened: OpenedTask) -> int:
    return opened.task.trading.initial_cash * market_minor(opened)
