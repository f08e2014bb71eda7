"""Invert the control flow of a task's episode: the caller receives each request and gives the
reply, where a run would call a model.

The episode runs in its own thread, one request at a time. Agents, tools, masks, retries and the
executor are the same as in a run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from queue import Queue
from threading import Thread
from typing import Any

from ktdeval.errors import KtdevalError, UsageError
from ktdeval.harness import ModelRequest, ModelTraits, Reply
from ktdeval.market import MarketSnapshot
from ktdeval.registry import Plugins
from ktdeval.runner import EpisodeFactory, RunConfig, choose_tasks, make_plan, open_snapshot
from ktdeval.task_api import AnswerRecord, EpisodeSpec, is_scoring, needs_market, task_traits
from ktdeval.trading import StepRecord
from ktdeval_gym.open_task import NoModel, mask_key_of

Record = StepRecord | AnswerRecord
_MODEL = "builtin/hold"  # only named in the spec; the caller replies instead


class _ClosedError(BaseException):
    """The caller has closed the episode. As a BaseException, it passes through agent and session,
    which only catch `Exception`.
    """


@dataclass(frozen=True)
class _ModelAsked:
    """The episode sends a request to the model."""

    request: ModelRequest


@dataclass(frozen=True)
class _EpisodeEnded:
    """The episode is over, or has failed."""

    error: KtdevalError | None = None


@dataclass(frozen=True)
class EpisodeTurn:
    """Result of a turn for the caller: a request, or None at the end, and the reward for the steps
    finished since the previous turn.
    """

    request: ModelRequest | None
    reward: float | None  #: None if no step was finished, or if its scores are undefined
    step: int  #: number of steps finished so far
    total_steps: int


class AskedEpisode:
    """One episode, handled request by request. It must be closed with `close`."""

    def __init__(self, tasks: TaskSource, name: str, seed: int) -> None:
        """Raises KtdevalError if the task does not exist or can't be opened."""
        self._to_model: Queue[Reply | None] = Queue()
        self._to_caller: Queue[_ModelAsked | _EpisodeEnded] = Queue()
        self._records: list[Record] = []
        self._rewarded = 0
        self._is_over = False
        self._opened = tasks.open(name, seed)
        model = _ChannelModel(self._to_model, self._to_caller)
        self._episode = self._opened.factory.open(self._opened.spec, model)
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def turn(self) -> EpisodeTurn:
        """Wait for the next request or the end of the episode. Raises KtdevalError if the episode
        failed.
        """
        message = self._to_caller.get()
        request = None
        if isinstance(message, _ModelAsked):
            request = message.request
        else:
            self._is_over = True
            if message.error is not None:
                raise message.error

        return EpisodeTurn(request, self._reward(), len(self._records), self._episode.total_steps)

    def reply(self, reply: Reply) -> None:
        """Answer the latest request. Raises UsageError if the episode is over."""
        if self._is_over:
            raise UsageError("the episode is over; call reset()")
        self._to_model.put(reply)

    def close(self) -> None:
        """End the episode's thread."""
        if self._thread.is_alive():
            self._to_model.put(None)
            self._thread.join()

    def _run(self) -> None:
        error: KtdevalError | None = None
        try:
            for step in range(self._episode.total_steps):
                self._records.append(self._episode.run_step(step).step)
        except _ClosedError:
            return
        except KtdevalError as problem:
            error = problem
        self._to_caller.put(_EpisodeEnded(error))

    def _reward(self) -> float | None:
        """Return the reward for the steps finished since the previous call."""
        if self._opened.is_rewarded_last and not self._is_over:
            return None

        new = self._records[self._rewarded :]
        self._rewarded = len(self._records)
        if not new:
            return None

        first = self._rewarded - len(new)
        last = new[-1]
        if isinstance(last, StepRecord):
            before = self._records[first - 1] if first else None
            nav = before.nav_minor if isinstance(before, StepRecord) else self._opened.initial_nav
            return math.log(max(last.nav_minor, 1) / max(nav, 1))

        return mean_score([record for record in new if isinstance(record, AnswerRecord)])


def mean_score(records: Sequence[AnswerRecord]) -> float | None:
    """Return the mean of all answer scores that lie between 0 and 1.

    A sample without a valid answer scores 0.0. The result is None if there are no such scores.
    """
    figures: list[float] = []
    for record in records:
        if record.answer is None:
            figures.append(0.0)
            continue

        for value in record.scores.values():
            if isinstance(value, bool | int | float) and 0 <= value <= 1:
                figures.append(float(value))

    if not figures:
        return None
    return math.fsum(figures) / len(figures)


class _ChannelModel:
    """Model that passes requests to the caller and returns its replies."""

    traits = ModelTraits(is_free=True)

    def __init__(
        self, replies: Queue[Reply | None], requests: Queue[_ModelAsked | _EpisodeEnded]
    ) -> None:
        self._replies = replies
        self._requests = requests

    def reply(self, request: ModelRequest) -> Reply:
        """Return the caller's reply. Raises _ClosedError if the caller has closed the episode."""
        self._requests.put(_ModelAsked(request))
        reply = self._replies.get()
        if reply is None:
            raise _ClosedError
        return reply


@dataclass(frozen=True)
class MarketChoice:
    """Market and length of the episodes served. For tasks without a market, only `limit`
    applies.
    """

    data: str = "synthetic"
    data_args: Mapping[str, Any] = field(default_factory=dict)
    windows: tuple[str, ...] = ()  #: only the first window is played; empty: the task's own windows
    limit: int | None = None  #: maximum number of steps in an episode


@dataclass(frozen=True)
class OpenedEpisode:
    """An episode that is ready to be played."""

    spec: EpisodeSpec
    factory: EpisodeFactory
    initial_nav: int  #: in minor units; 0 for questions
    #: whether the whole reward is given at the end, since daily returns would reveal prices that
    #: the task hides
    #: hides
    is_rewarded_last: bool


class TaskSource:
    """Tasks whose episodes can be opened. Each task's market is opened only once."""

    def __init__(
        self, names: Sequence[str], plugins: Plugins, market: MarketChoice | None = None
    ) -> None:
        """Raises KtdevalError for an unknown task."""
        self._plugins = plugins
        self._market = market or MarketChoice()
        self.names = tuple(plugins.resolve_tasks(tuple(names)))
        self._snapshots: dict[str, MarketSnapshot | None] = {}

    def open(self, name: str, seed: int) -> OpenedEpisode:
        """Return the episode for a task's first window. `seed` also determines the mask's handles.
        Raises KtdevalError.
        """
        if name not in self.names:
            raise UsageError(f"task {name} is not served; choose one of {', '.join(self.names)}")

        config = self._config(name, seed)
        tasks = choose_tasks(config, self._plugins)
        task = tasks[name]
        if name not in self._snapshots:
            self._snapshots[name] = self._snapshot(task)

        snapshot = self._snapshots[name]
        plan = make_plan(config, self._plugins, tasks, snapshot, None)
        spec = plan.specs[0]
        factory = EpisodeFactory(tasks, self._plugins, snapshot)
        nav = 0
        if not is_scoring(task):
            parts = factory.trading_parts(spec, NoModel())
            nav = parts.ledger(spec, ()).initial_cash_minor

        return OpenedEpisode(spec, factory, nav, task_traits(task).account_at_book)

    def _config(self, name: str, seed: int) -> RunConfig:
        market = self._market
        if not needs_market(self._plugins.make_task(name)):
            return RunConfig(model=_MODEL, tasks=(name,), seed=seed, limit=market.limit)

        return RunConfig(
            model=_MODEL,
            tasks=(name,),
            data=market.data,
            data_args=market.data_args,
            windows=market.windows,
            seed=seed,
            limit=market.limit,
            mask_key=mask_key_of(seed),
        )

    def _snapshot(self, task: Any) -> MarketSnapshot | None:
        """Return the market for a task; None if the task needs no market."""
        if not needs_market(task):
            return None
        return open_snapshot(self._plugins, self._market.data, dict(self._market.data_args))
