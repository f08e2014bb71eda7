"""Run, from config to plan, from plan to episodes, from episodes to cards. Running it again resumes it."""

from __future__ import annotations

import dataclasses
import re
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ktdeval.calls.prices import FREE, Price
from ktdeval.calls.stop import StopSignal
from ktdeval.cards.cutoff import Cutoff, run_cutoff
from ktdeval.cards.parts import NoCutoff
from ktdeval.config import RunConfig
from ktdeval.contracts.events import EpisodeFinished, Event
from ktdeval.contracts.registration import DrawnKey, check_registered, load_drawn_key
from ktdeval.contracts.spec import EpisodeOutcome, EpisodeSpec
from ktdeval.errors import PluginError, RunStop, UsageError
from ktdeval.fields import lasting_data, user_path
from ktdeval.harness.messages import RemoteModel, as_remote
from ktdeval.jsonio import JsonValue, content_hash
from ktdeval.market.snapshot import MarketSnapshot
from ktdeval.plugin_import import call_foreign, call_through
from ktdeval.registry import Plugins
from ktdeval.runner.access import ModelAccess, RemoteAccess, connect, run_price
from ktdeval.runner.call_checks import check_call_log
from ktdeval.runner.data_source import open_market
from ktdeval.runner.execute import Episode, EpisodeContext, EpisodeFactory, run_episode
from ktdeval.runner.plan import Plan, choose_tasks, make_plan
from ktdeval.runner.preflight import check_model
from ktdeval.runner.score import keep_certificate, keep_task_files, write_cards
from ktdeval.runner.store import MANIFEST, FolderClaim, RunFolder, RunManifest

DEFAULT_RUNS_FOLDER = "ktdeval-runs"


@dataclass(frozen=True)
class RunResult:
    """Outcome of a run."""

    folder: Path  #: the run folder
    cards: tuple[Path, ...]  #: the cards written, one a task that has at least one complete episode
    failed: tuple[EpisodeOutcome, ...]  #: the episodes without a complete ledger
    episodes: int  #: how many were planned
    stopped: RunStop | None = None  #: why the run ended before its time, such as a spent budget; None where it did not


@dataclass(frozen=True)
class PreparedRun:
    """A planned run with an open, locked folder and a way to its model; `close` it."""

    config: RunConfig
    plugins: Plugins
    snapshot: MarketSnapshot | None  #: None where no task needs a market
    plan: Plan
    folder: RunFolder
    access: ModelAccess
    stop: StopSignal

    def close(self) -> None:
        """Write down what is still to be written, and let other processes run this folder."""
        try:
            self.access.close()
        finally:
            self.folder.release()


def prepare_run(config: RunConfig, plugins: Plugins, stop: StopSignal) -> PreparedRun:
    """Check everything that can be checked before the first step, and open the run folder. Raises KtdevalError."""
    if config.dry_run:
        raise UsageError("--dry-run: nothing is run with it; leave it out, or see `ktdeval plan` for what the run would take")
    config = with_model_settings(config, plugins)
    drawn = drawn_key_of(config)
    tasks = choose_tasks(config, plugins)
    model = plugins.make_model(config.model, config.model_args)
    remote = as_remote(model)
    price = run_price(config, model)
    if remote is not None:
        plugin = plugins.owner("models", plugins.model_spec_name(config.model)[0])
        connect(remote, f"model {config.model} of plugin {plugin}")
    if config.max_hours is not None:
        stop.limit_hours(config.max_hours)
    snapshot = open_market(plugins, config, tasks.values())
    draft = make_plan(config, plugins, tasks, snapshot, None)
    check_model(config.model, model, draft.specs, lambda: EpisodeFactory(tasks, plugins, snapshot), plugins)
    claim = FolderClaim(run_path(config, draft).absolute())  # plugins may chdir
    access = None
    try:
        recorded = recorded_run(claim.path)
        config = replace(config, mask_key=_mask_key(config, drawn, recorded))
        if recorded is not None:
            check_call_log(recorded)  # before a record of calls is made in its place
        if remote is None:
            access = ModelAccess(model, None if price == FREE else config.max_failures)
        else:
            access = RemoteAccess(remote, config, price, claim.path, stop)
        plan = make_plan(config, plugins, tasks, snapshot, access.protocol)
        if drawn is not None:
            check_registered(plan.specs, drawn)
        manifest = run_manifest(config, plan, snapshot, remote, price, recorded)
        folder = RunFolder.create(claim, replace(manifest, call_log=None if access.log is None else access.log.identity._asdict()))
        keep_certificate(folder.path, config.certificate)
        keep_task_files(folder.path, plugins, plan.tasks)
    except BaseException:
        if access is not None:
            access.close()
        claim.release()
        raise
    return PreparedRun(config, plugins, snapshot, plan, folder, access, stop)


def _mask_key(config: RunConfig, drawn: DrawnKey | None, recorded: RunFolder | None) -> str:
    """Return the mask key of a run: the one that a board drew, the one given, that of the run begun before, or a new one."""
    if drawn is not None:
        return drawn.mask_key
    return config.mask_key or mask_key_of(recorded) or secrets.token_hex(16)


def run_manifest(
    config: RunConfig,
    plan: Plan,
    snapshot: MarketSnapshot | None,
    remote: RemoteModel | None,
    price: Price | None,
    recorded: RunFolder | None,
) -> RunManifest:
    """Return what a run writes down before its first step. `recorded`: that run, where it was begun before: it keeps its cutoff
    unless given one.
    """
    if config.knowledge_cutoff is None and recorded is not None:
        cutoff: Mapping[str, JsonValue] | NoCutoff = recorded.manifest.knowledge_cutoff
    else:
        known = run_cutoff(config.model, config.model_args, config.knowledge_cutoff)
        cutoff = known.to_json() if isinstance(known, Cutoff) else known
    return RunManifest(
        data=None if snapshot is None else {"data": lasting_data(config.data), "data_args": dict(config.data_args)},
        snapshot=None if snapshot is None else snapshot.id,
        metrics=config.metrics,
        rules=config.rules,
        specs=plan.specs,
        price=None if price is None else price.to_json(),
        request_settings=None if remote is None else remote.settings(),
        knowledge_cutoff=cutoff,
        registration=_registration_of(config, recorded),
    )


def drawn_key_of(config: RunConfig) -> DrawnKey | None:
    """Return the answered registration that a run is made under; None where it names none. Raises ConfigError: it can't be read;
    UsageError: a mask key is given beside it.
    """
    if config.registration is None:
        return None
    if config.mask_key is not None:
        raise UsageError("--mask-key: a registration has the key that the board drew; leave it out, or leave --registration out")
    return load_drawn_key(config.registration)


def _registration_of(config: RunConfig, recorded: RunFolder | None) -> str | None:
    """Return the id of the registration that a run is made under; one begun under a registration stays under it."""
    if config.registration is not None:
        return load_drawn_key(config.registration).id
    return None if recorded is None else recorded.manifest.registration


def execute_run(run: PreparedRun) -> RunResult:
    """Run episodes that are not complete, then write the cards. Raises KeyboardInterrupt, or ProviderError before any ran."""
    finished = [spec for spec in run.plan.specs if run.folder.is_complete(spec)]
    for spec in finished:
        run.plugins.emit(EpisodeFinished(spec, already_done=True))
    work = [spec for spec in run.plan.specs if spec not in finished]
    if work:
        run.access.begin()
    outcomes = _outcomes(run, work)
    failed = tuple(outcome for outcome in outcomes if outcome.error is not None)
    if not failed:
        run.access.finish()
    errors = {outcome.spec.id: outcome.error or "" for outcome in failed}
    tasks = [task for task in run.plan.tasks.values() if any(map(run.folder.is_complete, run.plan.specs_of(task.name)))]
    run.access.flush()
    cards = write_cards(run.folder, tasks, run.snapshot, run.plugins, errors)
    return RunResult(run.folder.path, tuple(cards), failed, len(run.plan.specs), run.stop.reason)


def _outcomes(run: PreparedRun, work: Sequence[EpisodeSpec]) -> Sequence[EpisodeOutcome]:
    """Run episodes by the run's backend. Raises PluginError: it fails, or gives something else than an outcome of each."""
    runner, name = run.plugins.make_runner(run.config.runner), run.config.runner
    where = f"runner {name} of plugin {run.plugins.owner('runners', name)}"
    turns = in_turn(work)
    outcomes = call_through(runner.run, where, turns, _executor(run), run.config.concurrency)
    if not isinstance(outcomes, list | tuple) or [getattr(one, "spec", None) for one in outcomes] != turns:
        raise PluginError(f"{where}: run() must return what execute() gave for each episode, in their order")
    planned = {spec.id: number for number, spec in enumerate(work)}
    return sorted(outcomes, key=lambda outcome: planned[outcome.spec.id])


def in_turn(work: Sequence[EpisodeSpec]) -> list[EpisodeSpec]:
    """Return episodes in the order in which they are begun: task by task, those on a market in an order that the mask key draws.

    In the order of the plan, which is public, the first episode that an endpoint sees would be of the first window under any mask.
    """
    tasks = {name: number for number, name in enumerate(dict.fromkeys(spec.task for spec in work))}
    turns = {spec.id: number if spec.mask_key is None else spec.hidden_seed("turn") for number, spec in enumerate(work)}
    return sorted(work, key=lambda spec: (tasks[spec.task], turns[spec.id]))


def evaluate(config: RunConfig, plugins: Plugins) -> RunResult:
    """Run a config from plan to cards: what `ktdeval run` does, without its screen. Raises KtdevalError or KeyboardInterrupt."""
    prepared = prepare_run(config, plugins, StopSignal())
    try:
        return execute_run(prepared)
    finally:
        prepared.close()


def _executor(run: PreparedRun) -> Callable[[EpisodeSpec], EpisodeOutcome]:
    """Return what a backend calls for each spec; everything that episodes share is made once, here."""
    factory = EpisodeFactory(run.plan.tasks, run.plugins, run.snapshot)
    emit_lock = threading.Lock()

    def emit(event: Event) -> None:
        with emit_lock:
            run.plugins.emit(event)

    def execute(spec: EpisodeSpec) -> EpisodeOutcome:
        access = run.access.for_episode(spec, emit)

        def open_episode() -> Episode:
            return factory.open(spec, access.model)

        context = EpisodeContext(open_episode, run.folder, emit, run.stop, run.access.redact, run.access.max_errors, access.counter)
        return run_episode(spec, context)

    return execute


def with_model_settings(config: RunConfig, plugins: Plugins) -> RunConfig:
    """Return the config with `--base-url` and what pins the model (its `recorded_args`) among its parameters, and with the settings
    that the replies of a model belong to (its `recorded_settings(tasks)`) where it leaves them at their defaults. Raises
    UsageError where it has no address, or two.
    """
    if config.base_url is not None:
        spec = plugins.spec("models", plugins.model_spec_name(config.model)[0])
        if spec.params is None or "base_url" not in {field.name for field in dataclasses.fields(spec.params)}:
            raise UsageError(f"--base-url: {config.model} has no server address; leave it out")
        if config.model_args.get("base_url", config.base_url) != config.base_url:
            raise UsageError("--base-url and --model-args base_url=… name two addresses; give one of them")
        config = replace(config, model_args={**config.model_args, "base_url": config.base_url})
    model = plugins.make_model(config.model, config.model_args)
    pins = call_foreign(dict, f"model {config.model}: recorded_args must be a mapping", getattr(model, "recorded_args", {}))
    config = replace(config, model_args={**config.model_args, **pins})
    recorded = getattr(model, "recorded_settings", None)
    if recorded is not None:
        where, tasks = f"model {config.model}: recorded_settings()", tuple(choose_tasks(config, plugins))
        unset, preset = RunConfig(model=config.model, tasks=config.tasks), call_through(recorded, where, tasks)
        config = replace(config, **{name: value for name, value in preset.items() if getattr(config, name) == getattr(unset, name)})
    return config


def recorded_run(path: Path) -> RunFolder | None:
    """Return the run in a folder; None where there is none. Raises StoreError as `RunFolder.load`."""
    return RunFolder.load(path) if (path / MANIFEST).exists() else None


def mask_key_of(run: RunFolder | None) -> str | None:
    """Return the mask key of a run; None where there is no run, or one without a key."""
    specs = () if run is None else run.manifest.specs
    return next((spec.mask_key for spec in specs if spec.mask_key), None)


def run_path(config: RunConfig, plan: Plan) -> Path:
    """Return the folder of a run: `--out`, or `ktdeval-runs/<task>-<model>-<hash>`, which the same command finds and so resumes."""
    if config.out:
        return user_path(config.out)
    names = list(plan.tasks)
    title = names[0] if len(names) == 1 else f"{len(names)}-tasks"
    words = f"{title}-{plan.specs[0].model}"
    digest = content_hash([spec.id for spec in plan.specs])[:8]
    return Path(DEFAULT_RUNS_FOLDER) / f"{re.sub(r'[^A-Za-z0-9_.-]+', '-', words)[:100]}-{digest}"
