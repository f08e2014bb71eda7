"""Execute an episode from its first unrecorded step on, and write its files.

Each step is on disk before the next step begins.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from traceback import extract_tb
from typing import Any

from msgspec import structs

from ktdeval.calls.failures.outages import step_stop
from ktdeval.calls.records.call_counts import CallCounter
from ktdeval.calls.stop_flag import Fence, StopSignal, no_fence
from ktdeval.cards.fields.episode_parts import Maker
from ktdeval.errors import (
    BudgetError,
    DataError,
    KtdevalError,
    PluginError,
    ProviderError,
    RunStop,
    UsageError,
)
from ktdeval.harness.agent import Agent
from ktdeval.harness.chat_messages import Model
from ktdeval.harness.external.external_acts import NOT_A_RUN, Outside
from ktdeval.harness.tools.tool_definition import Tool
from ktdeval.hookspecs import COMPACT
from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.registry.plugin_boundary import describe_error
from ktdeval.registry.plugin_error_location import place_of
from ktdeval.registry.plugin_registry import Plugins
from ktdeval.runner.episodes.episode import TradingEpisodeRun
from ktdeval.runner.episodes.episode_parts import EpisodeParts, ScoringParts
from ktdeval.runner.episodes.scoring_episode import ScoringEpisodeRun
from ktdeval.runner.plans.plan import target_task_of
from ktdeval.runner.records.episode_journal import Entry
from ktdeval.runner.records.run_anchors import NO_ANCHORS, Anchors
from ktdeval.runner.records.run_folder import RunFolder
from ktdeval.task_api.episode_spec import EpisodeOutcome, EpisodeSpec
from ktdeval.task_api.events import EpisodeFailed, EpisodeFinished, EpisodeStarted, Event
from ktdeval.task_api.scoring import ScoringTask, TargetTask, is_scoring
from ktdeval.task_api.trading_task import Scene, Task
from ktdeval.trading.market_tape import MarketTape
from ktdeval.trading.types import TradingConfig

#: stepwise episode of a trading or scoring task
Episode = TradingEpisodeRun | ScoringEpisodeRun


class EpisodeFactory:
    """Factory for the episodes of some tasks on one market, which is None if no task needs a
    market.

    Objects that episodes share, such as tapes and tools, are created once.
    """

    def __init__(
        self, tasks: Mapping[str, Task], plugins: Plugins, snapshot: MarketSnapshot | None
    ) -> None:
        self._plugins = plugins
        self._snapshot = snapshot
        self._tasks = tasks
        # target tasks, by name of the scoring task
        self._targets: dict[str, TargetTask | None] = {}
        self._tools: dict[str, tuple[Tool, ...]] = {}  # tools, by name of the trading task
        self._tapes: dict[TradingConfig, MarketTape] = {}  # tasks with the same rules share a tape
        for name, task in tasks.items():
            if is_scoring(task):
                self._targets[name] = target_task_of(task, plugins)
                continue

            self._tools[name] = plugins.tools(task.tools)
            if task.trading not in self._tapes:
                self._tapes[task.trading] = MarketTape.from_snapshot(self._market, task.trading)

    def open(
        self,
        spec: EpisodeSpec,
        model: Model,
        further: Mapping[str, Model] | None = None,
        outside: Outside = NOT_A_RUN,
        scene: Scene | None = None,
    ) -> Episode:
        """Return an episode, ready to be run, resumed or replayed.

        `further`: additional models, keyed by the name that the agent uses. If None, `model`
        answers for them. `outside`: settings for external agents. `scene`: for measurements, the
        scene of an earlier trading episode with the same spec; its mask has then already shown
        handles. Raises KtdevalError if the task or the agent rejects the spec.
        """
        task: Any = self._tasks[spec.task]
        if not is_scoring(task):
            trading = self.trading_parts(spec, model, outside)
            return TradingEpisodeRun(spec, replace(trading, further=further), scene)

        agent = self._agent(spec, outside)
        target = self._targets[spec.task]
        market = None if spec.snapshot is None else self._market
        parts = ScoringParts(task, target, market, model, agent, further=further, outside=outside)
        return ScoringEpisodeRun(spec, parts)

    @property
    def _market(self) -> MarketSnapshot:
        if self._snapshot is None:
            raise DataError("a task of this run needs a market, but the run has none")
        return self._snapshot

    def task(self, name: str) -> Task | ScoringTask:
        """Return the task with this name."""
        return self._tasks[name]

    def make_compact(self, name: str) -> EpisodeFactory | None:
        """Return a factory for the compact version of a task, whose name ends in `COMPACT`. None if
        the task has no compact version, or is itself compact.
        """
        compact = f"{name}{COMPACT}"
        try:
            task = self._plugins.make_task(compact)
        except UsageError:
            return None
        return EpisodeFactory({compact: task}, self._plugins, self._snapshot)

    def trading_parts(
        self, spec: EpisodeSpec, model: Model, outside: Outside = NOT_A_RUN
    ) -> EpisodeParts:
        """Return the parts of a trading episode."""
        task = self._tasks[spec.task]
        tools = self._tools[spec.task]
        tape = self._tapes[task.trading]
        agent = self._agent(spec, outside)
        return EpisodeParts(task, tools, self._market, tape, model, agent, outside=outside)

    def _agent(self, spec: EpisodeSpec, outside: Outside) -> Agent:
        return self._plugins.make_agent(spec.agent, {**spec.agent_args, **outside.agent_args})


@dataclass(frozen=True)
class EpisodeContext:
    """Objects and callbacks that a run provides to an episode."""

    #: opens the episode, some of whose steps may already be recorded
    open: Callable[[], Episode]
    folder: RunFolder  #: run folder for the episode's records
    emit: Callable[[Event], None]  #: called for each event
    stop: StopSignal  #: checked between steps, and set if all episodes must stop
    redact: Callable[[str], str]  #: removes secrets from messages
    #: number of consecutive steps with a failed call after which the run stops; None for no limit
    max_errors: int | None = None
    counter: CallCounter = field(default_factory=CallCounter)  #: counts the episode's calls
    fence: Fence = no_fence  #: called before each step and each write
    #: identity of the code that runs the steps; None if it is not recorded
    maker: Maker | None = None
    #: whether replaying the steps costs nothing and gives the same bytes
    is_repeatable: bool = False
    anchors: Anchors = NO_ANCHORS  #: chain of hashes over what is recorded


def run_episode(spec: EpisodeSpec, context: EpisodeContext) -> EpisodeOutcome:
    """Run an episode from the end of its journal to its last step. Raises only KeyboardInterrupt.

    A failure only affects the outcome of this episode. Recorded steps are kept, and other episodes
    continue.
    """
    outcome = _run_to_outcome(spec, context)
    if outcome.error is None:
        context.emit(EpisodeFinished(spec, already_done=False))
        return outcome

    problem = " ".join(context.redact(outcome.error).split())
    context.emit(EpisodeFailed(spec, problem, outcome.is_stopped))
    return replace(outcome, error=problem)


def _run_to_outcome(spec: EpisodeSpec, context: EpisodeContext) -> EpisodeOutcome:
    """Run an episode to its end and return its outcome. If the episode fails, the outcome contains
    the reason.

    Agents, models and tasks come from plugins, whose code may raise anything. Every exception
    except an interrupt is therefore caught, so that not even a `sys.exit` in a plugin ends the run.
    """
    try:
        _run_to_end(spec, context)
    except RunStop as error:
        context.stop.stop(error)
        return EpisodeOutcome(spec, str(error), is_stopped=isinstance(error, BudgetError))
    except PluginError as error:
        return EpisodeOutcome(spec, str(error), is_defect=True)
    except KtdevalError as error:
        return EpisodeOutcome(spec, str(error))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - see above
        return EpisodeOutcome(spec, _describe_defect(error), is_defect=True)

    return EpisodeOutcome(spec)


def _check_failures(errors: int, failures: Mapping[str, int], max_errors: int | None) -> None:
    """Raise ProviderError, so that the step is not recorded, if a call in it failed by an outage, or
    if it is the last of too many failed steps. `errors`: consecutive steps that ended in a failed
    call, up to this one; `max_errors`: as in `EpisodeContext`.
    """
    if max_errors is None:
        return

    outage = step_stop(failures)
    if outage is not None:
        raise outage
    if errors >= max_errors:
        raise ProviderError(_too_many_errors(errors, failures))


def _too_many_errors(errors: int, failures: Mapping[str, int]) -> str:
    """Return why a run stops after consecutive steps that ended in a failed call. Other calls in
    these steps may have succeeded.
    """
    steps = f"{errors} steps in a row" if errors > 1 else "a step"
    kinds = ", ".join(sorted(failures))
    return (
        f"{steps} ended in a failed call ({kinds}); fix the cause, then run the same command again"
        " to resume (--max-failures)"
    )


def _describe_defect(error: BaseException) -> str:
    """Return the type, message and location of an error. The location is the last line in the
    plugin's code or, failing that, the last line of the traceback.
    """
    text = describe_error(error)
    if place_of(error) is not None:
        return text

    last = extract_tb(error.__traceback__)[-1]
    return f"{text} ({Path(last.filename).name}:{last.lineno})"


def _run_to_end(spec: EpisodeSpec, context: EpisodeContext) -> None:
    """Run the steps that are not recorded yet, then write the episode's files."""
    episode = context.open()
    with closing(episode):
        _run_steps(spec, context, episode)

    context.fence()
    counter = context.counter
    context.folder.complete(spec, episode.entry_type, episode.encode, counter.calls())
    context.anchors.stamp()


def _run_steps(spec: EpisodeSpec, context: EpisodeContext, episode: Episode) -> None:
    """Run the steps that are not recorded yet."""
    counter = context.counter

    def is_own(index: int, entry: Entry) -> bool:
        return index < episode.total_steps and episode.is_own(index, entry)

    with context.folder.open_journal(
        spec, episode.entry_type, is_own, is_repeatable=context.is_repeatable
    ) as journal:
        done = len(journal.recovered)
        context.anchors.open_episode(spec.id, journal.recovered)
        if done:
            episode.resume(journal.recovered)

        recorded = tuple(episode.event(entry.step) for entry in journal.recovered)
        context.emit(EpisodeStarted(spec, episode.total_steps, done, recorded))
        errors = 0

        for step in range(done, episode.total_steps):
            context.stop.check()
            context.fence()
            counter.begin_step(step)
            began = time.perf_counter()
            entry: Entry = episode.run_step(step)
            errors = errors + 1 if entry.step.provenance == "error" else 0
            _check_failures(errors, entry.step.failures, context.max_errors)

            # Settle calls first: if the process is killed, every recorded step must have its calls
            # on record.
            counter.settle()
            wall_s = round(time.perf_counter() - began, 6)
            context.fence()
            journal.append(structs.replace(entry, wall_s=wall_s, made_by=context.maker))
            context.anchors.add_step(spec.id, step, entry)
            context.emit(episode.event(entry.step))
