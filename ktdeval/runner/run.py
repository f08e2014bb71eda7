"""A whole run: config to plan, plan to episodes, episodes to cards. Running it again resumes it."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ktdeval.config import RunConfig
from ktdeval.harness.messages import Model
from ktdeval.jsonio import content_hash
from ktdeval.market.snapshot import MarketSnapshot
from ktdeval.registry import Plugins
from ktdeval.runner.backend import EpisodeOutcome
from ktdeval.runner.data_source import open_snapshot
from ktdeval.runner.episode import EpisodeContext, EpisodeParts, run_episode
from ktdeval.runner.events import EpisodeFinished, Event
from ktdeval.runner.plan import Plan, choose_tasks, make_plan
from ktdeval.runner.score import write_cards
from ktdeval.runner.spec import EpisodeSpec
from ktdeval.runner.store import RunFolder, RunManifest
from ktdeval.trading.tape import Tape

DEFAULT_RUNS_FOLDER = "ktdeval-runs"


@dataclass(frozen=True)
class RunResult:
    """What a run left behind.

    Attributes:
        folder: the run folder.
        cards: the cards written, one a task that has at least one complete episode.
        failed: the episodes without a complete ledger.
    """

    folder: Path
    cards: tuple[Path, ...]
    failed: tuple[EpisodeOutcome, ...]


@dataclass(frozen=True)
class PreparedRun:
    """A planned run with an open, locked folder."""

    config: RunConfig
    plugins: Plugins
    snapshot: MarketSnapshot
    plan: Plan
    folder: RunFolder


def prepare_run(config: RunConfig, plugins: Plugins) -> PreparedRun:
    """Check everything that can be checked before the first model call, and open the run folder.

    Raises:
        KtdevalError: anything in the config that can't work, in one line.
    """
    tasks = choose_tasks(config, plugins)
    snapshot = open_snapshot(plugins, config.data, config.data_args)
    plan = make_plan(config, plugins, tasks, snapshot)
    manifest = RunManifest(
        data={"data": _portable(config.data), "data_args": dict(config.data_args)},
        snapshot=snapshot.id,
        metrics=config.metrics,
        rules=config.rules,
        specs=plan.specs,
    )
    folder = RunFolder.create(Path(config.out) if config.out else default_folder(plan), manifest)
    return PreparedRun(config, plugins, snapshot, plan, folder)


def execute_run(run: PreparedRun, stop: threading.Event) -> RunResult:
    """Run the episodes that are not complete yet, then write the cards.

    Args:
        run: from `prepare_run`.
        stop: when set, episodes under way stop after the step they are in.
    """
    execute = _executor(run, stop)
    finished = [spec for spec in run.plan.specs if run.folder.is_complete(spec)]
    for spec in finished:
        run.plugins.emit(EpisodeFinished(spec, already_done=True))
    work = [spec for spec in run.plan.specs if spec not in finished]
    runner = run.plugins.make_runner(run.config.runner)
    outcomes = runner.run(work, execute, run.config.concurrency)
    failed = tuple(outcome for outcome in outcomes if outcome.error is not None)
    errors = {outcome.spec.id: outcome.error or "" for outcome in failed}
    tasks = [task for task in run.plan.tasks.values() if any(map(run.folder.is_complete, run.plan.specs_of(task.name)))]
    cards = write_cards(run.folder, tasks, run.snapshot, run.plugins, errors)
    return RunResult(run.folder.path, tuple(cards), failed)


def _executor(run: PreparedRun, stop: threading.Event) -> Callable[[EpisodeSpec], EpisodeOutcome]:
    """What a backend calls for each spec; everything that episodes share is made once, here."""
    model: Model = run.plugins.make_model(run.config.model, run.config.model_args)
    tapes = {config: Tape.from_snapshot(run.snapshot, config) for config in {task.trading for task in run.plan.tasks.values()}}
    tools = {name: run.plugins.tools(task.tools) for name, task in run.plan.tasks.items()}
    emit_lock = threading.Lock()

    def emit(event: Event) -> None:
        with emit_lock:
            run.plugins.emit(event)

    def execute(spec: EpisodeSpec) -> EpisodeOutcome:
        task = run.plan.tasks[spec.task]
        agent = run.plugins.make_agent(spec.agent, spec.agent_args)
        tape = tapes[task.trading]
        parts = EpisodeParts(task, tools[task.name], run.snapshot, tape, model, agent)
        return run_episode(spec, EpisodeContext(parts, run.folder, emit, stop))

    return execute


def default_folder(plan: Plan) -> Path:
    """`ktdeval-runs/<task>-<model>-<hash>`: the same command finds the same folder, and so resumes."""
    names = list(plan.tasks)
    title = names[0] if len(names) == 1 else f"{len(names)}-tasks"
    words = f"{title}-{plan.specs[0].model}"
    digest = content_hash([spec.id for spec in plan.specs])[:8]
    return Path(DEFAULT_RUNS_FOLDER) / f"{re.sub(r'[^A-Za-z0-9_.-]+', '-', words)[:100]}-{digest}"


def _portable(data: str) -> str:
    """A data folder as an absolute path, so that the run can be scored and verified from anywhere on this machine."""
    path = Path(data).expanduser()
    return str(path.resolve()) if (path / "manifest.json").is_file() else data
