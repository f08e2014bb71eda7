"""Execution of any episode, from its first step that is not recorded to its files: nothing is lost between two steps."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from traceback import walk_tb

from msgspec.structs import replace

from ktdeval.calls.stop import StopSignal
from ktdeval.calls.tally import CallCounter
from ktdeval.contracts.events import EpisodeFailed, EpisodeFinished, EpisodeStarted, Event
from ktdeval.contracts.scoring import ScoringTask, TargetTask, is_scoring
from ktdeval.contracts.spec import EpisodeOutcome, EpisodeSpec
from ktdeval.contracts.task import Task
from ktdeval.errors import DataError, KtdevalError, ProviderError, RunStop
from ktdeval.harness.messages import Model
from ktdeval.market.snapshot import MarketSnapshot
from ktdeval.registry import Plugins
from ktdeval.runner.episode import EpisodeParts, TradingEpisode
from ktdeval.runner.journal import Entry
from ktdeval.runner.plan import target_task_of
from ktdeval.runner.scoring_episode import ScoringEpisode, ScoringParts
from ktdeval.runner.store import RunFolder
from ktdeval.trading.market_tape import MarketTape

Episode = TradingEpisode | ScoringEpisode  #: step by step, whether it trades or answers


class EpisodeFactory:
    """Opens episodes of some tasks on one market, None where they need none; what they share is made once."""

    def __init__(self, tasks: Mapping[str, Task], plugins: Plugins, snapshot: MarketSnapshot | None) -> None:
        self._plugins = plugins
        self._snapshot = snapshot
        trading = {name: task for name, task in tasks.items() if not is_scoring(task)}
        tapes = {config: MarketTape.from_snapshot(self._market, config) for config in {task.trading for task in trading.values()}}
        self._trading = {name: (task, plugins.tools(task.tools), tapes[task.trading]) for name, task in trading.items()}
        self._scoring: dict[str, tuple[ScoringTask, TargetTask | None]] = {
            name: (task, target_task_of(task, plugins)) for name, task in tasks.items() if is_scoring(task)
        }

    def open(self, spec: EpisodeSpec, model: Model) -> Episode:
        """Return an episode, ready to be run, resumed or retraced. Raises KtdevalError: task or agent refuse the spec."""
        if spec.task not in self._scoring:
            return TradingEpisode(spec, self.trading_parts(spec, model))
        agent = self._plugins.make_agent(spec.agent, spec.agent_args)
        snapshot = None if spec.snapshot is None else self._market
        return ScoringEpisode(spec, ScoringParts(*self._scoring[spec.task], snapshot, model, agent))

    @property
    def _market(self) -> MarketSnapshot:
        if self._snapshot is None:
            raise DataError("a task of this run asks about a market, and the run has none")
        return self._snapshot

    def task(self, name: str) -> Task | ScoringTask:
        """Return one of the tasks."""
        return self._trading[name][0] if name in self._trading else self._scoring[name][0]

    def trading_parts(self, spec: EpisodeSpec, model: Model) -> EpisodeParts:
        """Parts of a trading episode."""
        task, tools, tape = self._trading[spec.task]
        agent = self._plugins.make_agent(spec.agent, spec.agent_args)
        return EpisodeParts(task, tools, self._market, tape, model, agent)


@dataclass(frozen=True)
class EpisodeContext:
    """Surroundings of an episode."""

    open: Callable[[], Episode]  #: opens it; its first steps may be recorded already
    folder: RunFolder  #: where its records go
    emit: Callable[[Event], None]  #: called with what happens
    stop: StopSignal  #: looked at between steps; set when an episode finds that none can go on
    redact: Callable[[str], str]  #: takes secrets out of a message
    max_errors: int | None = None  #: steps in a row that may end in a failed call before the run stops; None sets no limit
    counter: CallCounter = field(default_factory=CallCounter)  #: counts its calls


def run_episode(spec: EpisodeSpec, context: EpisodeContext) -> EpisodeOutcome:
    """Run an episode to its end, from wherever its journal stands; raises KeyboardInterrupt only. This is the boundary at which a
    defect of a plugin becomes a failed episode: the others go on, what was recorded stays.
    """
    try:
        _run_to_end(spec, context)
    except RunStop as error:
        context.stop.stop(error)
        problem = str(error)
    except KtdevalError as error:
        problem = str(error)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - a stranger's agent, model or task may raise anything, and end the process
        problem = f"{_location(error)}: {type(error).__name__}: {error}"
    else:
        context.emit(EpisodeFinished(spec, already_done=False))
        return EpisodeOutcome(spec)
    problem = " ".join(context.redact(problem).split())
    context.emit(EpisodeFailed(spec, problem))
    return EpisodeOutcome(spec, problem)


def _hopeless(errors: int, failures: Mapping[str, int]) -> str:
    """Why a run stops after steps that each ended in a failed call, though other calls of these steps may have succeeded."""
    steps = f"{errors} steps in a row" if errors > 1 else "a step"
    kinds = ", ".join(sorted(failures))
    return f"{steps} ended in a failed call ({kinds}); fix it, then run the same command again to resume (--max-failures)"


def _location(error: BaseException) -> str:
    """File and line of the innermost call that is not in Python's own library; after a plugin's, where it is in ktdeval."""
    plugin = location = ""
    for frame, line in walk_tb(error.__traceback__):
        package = str(frame.f_globals.get("__name__")).partition(".")[0]
        if package not in sys.stdlib_module_names:
            location = f"{Path(frame.f_code.co_filename).name}:{line}"
            plugin = plugin if package == "ktdeval" else location
    return location if plugin in ("", location) else f"{plugin} → {location}"


def _run_to_end(spec: EpisodeSpec, context: EpisodeContext) -> None:
    episode = context.open()
    counter = context.counter

    def is_own(index: int, entry: Entry) -> bool:
        return index < episode.total_steps and episode.is_own(index, entry)

    with context.folder.open_journal(spec, episode.entry_type, is_own) as journal:
        done = len(journal.recovered)
        if done:
            episode.resume(journal.recovered)
        recorded = tuple(episode.event(entry.step) for entry in journal.recovered)
        context.emit(EpisodeStarted(spec, episode.total_steps, done, recorded))
        errors = 0
        for step in range(done, episode.total_steps):
            context.stop.check()
            counter.begin_step(step)
            began = time.perf_counter()
            entry: Entry = episode.run_step(step)
            errors = errors + 1 if entry.step.provenance == "error" else 0
            if errors == context.max_errors:
                raise ProviderError(_hopeless(errors, entry.step.failures))
            counter.settle()  # a kill must not leave a step whose calls are on record nowhere
            journal.append(replace(entry, wall_s=round(time.perf_counter() - began, 6)))
            context.emit(episode.event(entry.step))
    context.folder.complete(spec, episode.entry_type, episode.encode, counter.calls())
