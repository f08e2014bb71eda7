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

from ktdeval.calls.call_counts import CallCounter
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
from ktdeval.harness.external_acts import NOT_A_RUN, Outside
from ktdeval.harness.tool_definition import Tool
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
from ktdeval.runner.records.run_folder import RunFolder
from ktdeval.task_api.episode_spec import EpisodeOutcome, EpisodeSpec
from ktdeval.task_api.events import EpisodeFailed, EpisodeFinished, EpisodeStarted, Event
from ktdeval.task_api.scoring import ScoringTask, TargetTask, is_scoring
from ktdeval.task_api.trading_task import Scene, Task
from ktdeval.trading.market_tape import MarketTape
from ktdeval.trading.types import TradingConfig

#: an episode that runs step by step, of a trading or scoring task
Episode = TradingEpisodeRun | ScoringEpisodeRun


class EpisodeFactory:
    """Factory for the episodes of some tasks on one market (None if no task needs a market).

    Tapes, tools and other objects that episodes share are created once.
    """

    def __init__(
        self, tasks: Mapping[str, Task], plugins: Plugins, snapshot: MarketSnapshot | None
    ) -> None:
        self._plugins = plugins
        self._snapshot = snapshot
        self._tasks = tasks
        self._targets: dict[str, TargetTask | None] = {}  # targets of scoring tasks, by task name
        self._tools: dict[str, tuple[Tool, ...]] = {}  # tools of trading tasks, by task name
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
        """Return an episode, ready to be run, resumed or replayed. `further`: additional models by
        the name that the agent uses; None: `model` answers for them. `outside`: settings for
        external agents. `scene`: that of an earlier trading episode of the same spec, whose mask has
        then already shown handles; for measurements. Raises KtdevalError if the task or the agent
        rejects the spec.
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
        """Return one of the tasks."""
        return self._tasks[name]

    def make_compact(self, name: str) -> EpisodeFactory | None:
        """Return the factory for a task's compact-prompt version, whose name has the suffix
        `COMPACT`; None if the task has no such version, or is itself compact.
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
    """Objects that an episode needs from its run."""

    #: function that opens the episode; its first steps may already be recorded
    open: Callable[[], Episode]
    folder: RunFolder  #: run folder that holds its records
    emit: Callable[[Event], None]  #: called for each event
    stop: StopSignal  #: checked between steps; set if all episodes must stop
    redact: Callable[[str], str]  #: removes secrets from a message
    #: consecutive steps with a failed call after which the run stops; None sets no limit
    max_errors: int | None = None
    counter: CallCounter = field(default_factory=CallCounter)  #: counts its calls
    fence: Fence = no_fence  #: called before each step, and before each write
    maker: Maker | None = None  #: identity of the code that runs its steps; None: not recorded
    #: whether replaying its steps costs nothing and gives the same bytes
    is_repeatable: bool = False


def run_episode(spec: EpisodeSpec, context: EpisodeContext) -> EpisodeOutcome:
    """Run an episode from the end of its journal to its last step. Raises only KeyboardInterrupt.

    A failure becomes the outcome of this episode: other episodes continue, and recorded steps are
    kept.
    """
    outcome = _run_to_outcome(spec, context)
    if outcome.error is None:
        context.emit(EpisodeFinished(spec, already_done=False))
        return outcome

    problem = " ".join(context.redact(outcome.error).split())
    context.emit(EpisodeFailed(spec, problem, outcome.is_stopped))
    return replace(outcome, error=problem)


def _run_to_outcome(spec: EpisodeSpec, context: EpisodeContext) -> EpisodeOutcome:
    """Run an episode to its end; return its outcome, with the reason if it failed.

    Every exception except an interrupt is caught, because agents, models and tasks come from
    plugins: their code may raise anything, and a `sys.exit` in a plugin must not end the run.
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


def _too_many_errors(errors: int, failures: Mapping[str, int]) -> str:
    """Return why a run stops after consecutive steps with a failed call.

    Other calls in these steps may have succeeded.
    """
    steps = f"{errors} steps in a row" if errors > 1 else "a step"
    kinds = ", ".join(sorted(failures))
    return (
        f"{steps} ended in a failed call ({kinds}); fix the cause, then run the same command again"
        " to resume (--max-failures)"
    )


def _describe_defect(error: BaseException) -> str:
    """Return the type, text and location of an error: the last line in the plugin's code, or else
    the last line of the traceback.
    """
    text = describe_error(error)
    if place_of(error) is not None:
        return text

    last = extract_tb(error.__traceback__)[-1]
    return f"{text} ({Path(last.filename).name}:{last.lineno})"


def _run_to_end(spec: EpisodeSpec, context: EpisodeContext) -> None:
    """Run the steps that are not yet recorded, then write the episode's files."""
    episode = context.open()
    with closing(episode):
        _run_steps(spec, context, episode)

    context.fence()
    counter = context.counter
    context.folder.complete(spec, episode.entry_type, episode.encode, counter.calls())


def _run_steps(spec: EpisodeSpec, context: EpisodeContext, episode: Episode) -> None:
    """Run the steps that are not yet recorded."""
    counter = context.counter

    def is_own(index: int, entry: Entry) -> bool:
        return index < episode.total_steps and episode.is_own(index, entry)

    with context.folder.open_journal(
        spec, episode.entry_type, is_own, is_repeatable=context.is_repeatable
    ) as journal:
        done = len(journal.recovered)
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
            if errors == context.max_errors:
                raise ProviderError(_too_many_errors(errors, entry.step.failures))

            # Calls first: after a kill, no recorded step may lack the record of its calls.
            counter.settle()
            wall_s = round(time.perf_counter() - began, 6)
            context.fence()
            journal.append(structs.replace(entry, wall_s=wall_s, made_by=context.maker))
            context.emit(episode.event(entry.step))
