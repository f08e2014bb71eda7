"""Run a config: plan it, run its episodes and write the cards. Running it again resumes the run."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from ktdeval.calls.batches.episode_rounds import EpisodeRounds
from ktdeval.calls.budget import Allowance
from ktdeval.calls.costs.prices import FREE, Price
from ktdeval.calls.failures.context_refusals import Context
from ktdeval.calls.stop_flag import Fence, StopSignal, no_fence
from ktdeval.errors import PluginError, RunStop, UsageError
from ktdeval.harness.chat_messages import Model, RemoteModel, ToolProtocol, as_remote
from ktdeval.harness.traits import model_traits
from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.registry.plugin_boundary import call_through
from ktdeval.registry.plugin_registry import Plugins
from ktdeval.runner.episodes.episode_execution import (
    Episode,
    EpisodeContext,
    EpisodeFactory,
    run_episode,
)
from ktdeval.runner.execution.batched_calls import (
    ask_in_batches,
    ask_samples,
    check_batch,
    check_batch_folder,
    leaving,
    open_rounds,
)
from ktdeval.runner.execution.run_fit import check_fit
from ktdeval.runner.models.model_connection import (
    ModelAccess,
    RemoteAccess,
    RunSignals,
    connect,
    local_protocol,
    run_price,
)
from ktdeval.runner.models.run_events import run_id, told_run
from ktdeval.runner.models.timed_model import TimedModel
from ktdeval.runner.plans.additional_models import (
    RunModel,
    choices,
    further_models,
    offer_protocols,
    own_model,
)
from ktdeval.runner.plans.config import RunConfig
from ktdeval.runner.plans.data_source import open_market
from ktdeval.runner.plans.mask_keys import drawn_key_of, key_source, mask_key_for
from ktdeval.runner.plans.model_settings import with_model_settings
from ktdeval.runner.plans.new_manifest import (
    run_manifest,
    with_foreign,
    with_further,
)
from ktdeval.runner.plans.outside_agents import outside_of, try_agent
from ktdeval.runner.plans.plan import (
    Plan,
    as_first_recorded,
    choose_tasks,
    in_turn,
    make_plan,
    under_known_ids,
)
from ktdeval.runner.plans.plan_growth import Growth, grown_manifest, growth_of
from ktdeval.runner.records.completion_marks import LogEntry, own_maker
from ktdeval.runner.records.leaderboard_registration import (
    DrawnKey,
    check_registered,
)
from ktdeval.runner.records.run_anchors import (
    NO_ANCHORS,
    AnchorRule,
    Anchors,
    load_anchor_rule,
    open_anchors,
)
from ktdeval.runner.records.run_claim import RunClaim, claim_folder, claim_url
from ktdeval.runner.records.run_file_names import ANCHORS
from ktdeval.runner.records.run_folder import RunFolder, recorded_run
from ktdeval.runner.records.run_locator import local_copy
from ktdeval.runner.records.run_manifest import RunManifest
from ktdeval.runner.rehearsals.model_task_fit import check_person
from ktdeval.runner.scoring.call_log_checks import check_call_log
from ktdeval.runner.scoring.score import keep_certificate, keep_task_files, write_cards
from ktdeval.stores.mirror import checked_url, is_url
from ktdeval.task_api.episode_spec import EpisodeOutcome, EpisodeSpec
from ktdeval.task_api.events import EpisodeFinished, Event
from ktdeval.task_api.scoring import is_scoring
from ktdeval.task_api.trading_task import Task
from ktdeval.values.disk.files import Closing, check_output
from ktdeval.values.options.config_options import user_path

DEFAULT_RUNS_FOLDER = "ktdeval-runs"


@dataclass(frozen=True)
class RunResult:
    """Outcome of a run."""

    folder: Path  #: run folder
    #: cards that were written, one per task with at least one complete episode
    cards: tuple[Path, ...]
    failed: tuple[EpisodeOutcome, ...]  #: outcomes of episodes that did not finish
    episodes: int  #: number of planned episodes
    #: why the run stopped early, for example because a budget was exhausted; None if it did not
    stopped: RunStop | None = None


@dataclass(frozen=True)
class PreparedRun(Closing):
    """Planned run with an open, locked folder and access to its models. The caller must
    `close` it.
    """

    config: RunConfig
    plugins: Plugins
    snapshot: MarketSnapshot | None  #: None if no task needs a market
    plan: Plan
    folder: RunFolder
    access: ModelAccess
    stop: StopSignal
    #: rounds in which episodes make their calls in batches; None if calls are made individually
    rounds: EpisodeRounds | None = None
    anchors: Anchors = NO_ANCHORS  #: chain of hashes over what is recorded

    @property
    def factory(self) -> EpisodeFactory:
        """Factory for the run's episodes."""
        return EpisodeFactory(self.plan.tasks, self.plugins, self.snapshot)

    def close(self) -> None:
        """Write pending records, and unlock the folder for other processes."""
        try:
            self.anchors.close()
            self.access.close()
        finally:
            self.folder.release()


@dataclass(frozen=True)
class SharedRun:
    """Settings shared by run folders that each contain part of the same run. The mask key and the
    tool protocol are in the config instead.
    """

    #: tool protocols of additional models, keyed by the name that the agent uses
    further_protocols: Mapping[str, ToolProtocol] = field(default_factory=dict)
    allowance: Allowance | None = None  #: budget shared by all parts
    #: called before each call that probes a model's tool protocol
    fence: Fence = no_fence
    #: ids of the whole run's episodes, which an earlier version may have recorded
    episodes: Collection[str] = ()
    #: rounds for episodes with `--batch`; whoever runs an episode joins and leaves them on its
    #: behalf
    rounds: EpisodeRounds | None = None
    key_given: bool = False  #: whether the user gave the mask key, instead of the run drawing one


def prepare_run(
    config: RunConfig, plugins: Plugins, stop: StopSignal, shared: SharedRun | None = None
) -> PreparedRun:
    """Check everything that can be checked before the first step, and open the run folder.

    If `shared` is given, the folder holds part of a run, whose plan may have grown since the folder
    was created. Raises KtdevalError.
    """
    checked = _check_run(config, plugins, stop, shared)
    config, tasks, models = checked.config, checked.tasks, checked.models
    claim = _claim_folder(config, checked.draft)
    # If anything below fails, files are closed and the folder is unlocked.
    with ExitStack() as undo:
        undo.callback(claim.release)
        recorded = recorded_run(claim.path)
        known_key = key_source(config, recorded, is_drawn=_is_key_drawn(shared))
        config = replace(config, mask_key=mask_key_for(config, checked.drawn, recorded))
        _check_start(recorded, config, plugins, claim.path)
        anchor_rule = _anchor_rule(config, shared, claim.path)

        signals = _signals(claim, stop, plugins, shared)
        access = _open_access(models, config, claim.path, signals, shared)
        if isinstance(access, RemoteAccess):
            access.client.context.learn(checked.context)

        undo.callback(access.close)
        rounds = open_rounds(access, config, tasks, _shared_rounds(shared))
        config = access.config_as_sent(config)
        further = choices(access.further)
        plan = make_plan(config, plugins, tasks, checked.snapshot, access.protocol, further)
        plan = _as_known(plan, config, checked.drawn, recorded, shared)
        manifest = run_manifest(
            config, plan, checked.snapshot, models.remote, models.price, recorded
        )
        manifest = with_further(manifest, config, access.further, recorded)
        manifest = replace(with_foreign(manifest, plugins, recorded), key_source=known_key)
        if shared is not None and recorded is not None:
            manifest = grown_manifest(recorded, manifest)

        growth = growth_of(config, is_part=shared is not None)
        folder = _create_folder(claim, manifest, access, growth)
        anchors = open_anchors(folder, anchor_rule, is_new=recorded is None)
        _keep_files(folder, config, plugins, plan)
        undo.pop_all()

    return PreparedRun(
        config, plugins, checked.snapshot, plan, folder, access, stop, rounds, anchors
    )


@dataclass(frozen=True)
class _CheckedRun:
    """What a run needs before it has a folder."""

    config: RunConfig  #: completed with the model's own settings
    drawn: DrawnKey | None  #: key that a leaderboard drew for the run
    tasks: Mapping[str, Task]
    models: _RunModels
    snapshot: MarketSnapshot | None
    draft: Plan  #: plan before the mask key and the tool protocol are known
    context: Context | None  #: context of the run's own model, if it is remote and known


def _check_run(
    config: RunConfig, plugins: Plugins, stop: StopSignal, shared: SharedRun | None
) -> _CheckedRun:
    """Check all that can be checked without a folder, connect the models, and open the market.
    Raises KtdevalError.
    """
    _check_request(config)
    config = with_model_settings(config, plugins)
    drawn = drawn_key_of(config)
    tasks = choose_tasks(config, plugins)
    check_batch(config, plugins)
    models = _connect_models(config, plugins, shared)
    if config.max_hours is not None:
        stop.limit_hours(config.max_hours)

    snapshot = open_market(plugins, config, tasks.values())
    draft = make_plan(config, plugins, tasks, snapshot, None, choices(models.further))
    context = check_fit(
        config, plugins, models.own, draft.specs, lambda: EpisodeFactory(tasks, plugins, snapshot)
    )
    return _CheckedRun(config, drawn, tasks, models, snapshot, draft, context)


def _check_request(config: RunConfig) -> None:
    """Raise UsageError if a config asks for an estimate only, StoreError if its output can't be
    written.
    """
    if config.dry_run:
        raise UsageError(
            "--dry-run only estimates a run; omit it, or use `ktdeval plan` for the estimate"
        )
    check_run_output(config)


def _anchor_rule(config: RunConfig, shared: SharedRun | None, folder: Path) -> AnchorRule | None:
    """Return how a run is anchored; None without `--anchor`.

    Raises UsageError if its steps are recorded by several processes or elsewhere, which one chain
    can't cover, and as `load_anchor_rule` does.
    """
    if config.anchor is None and not (folder / ANCHORS).exists():
        return None
    if shared is not None or config.runner != "local" or (config.out and is_url(config.out)):
        raise UsageError(
            "--anchor: needs a run by one process in a folder of this machine; use --runner local"
            " and an --out that is no URL, or omit --anchor"
        )
    return None if config.anchor is None else load_anchor_rule(config.anchor)


def _keep_files(folder: RunFolder, config: RunConfig, plugins: Plugins, plan: Plan) -> None:
    """Keep the run's certificate and the task files of outside packages."""
    keep_certificate(folder.path, config.certificate)
    keep_task_files(folder.path, plugins, plan.tasks)


def _shared_rounds(shared: SharedRun | None) -> EpisodeRounds | None:
    """Return the rounds of a whole run of which this is a part."""
    return None if shared is None else shared.rounds


def _is_key_drawn(shared: SharedRun | None) -> bool:
    """Return whether the config of a part of a run has a mask key that the run drew."""
    return shared is not None and not shared.key_given


def _as_known(
    plan: Plan,
    config: RunConfig,
    drawn: DrawnKey | None,
    recorded: RunFolder | None,
    shared: SharedRun | None,
) -> Plan:
    """Return a plan under the ids that the folder, or the whole run, has for its episodes. Raises
    UsageError if the plan differs from the registered one.
    """
    if drawn is not None:
        check_registered(plan.specs, drawn)

    had = () if recorded is None else recorded.manifest.specs
    ids = () if shared is None else shared.episodes
    return replace(plan, specs=under_known_ids(plan.specs, had, ids, config.timeout_s))


def _signals(
    claim: RunClaim, stop: StopSignal, plugins: Plugins, shared: SharedRun | None
) -> RunSignals:
    """Return the callbacks between a run and its calls."""
    fence = claim.check if shared is None else shared.fence
    return RunSignals(stop, plugins.emit, fence)


def _check_start(
    recorded: RunFolder | None, config: RunConfig, plugins: Plugins, folder: Path
) -> None:
    """Check that a recorded run can continue, and that the agent can be started.

    This must happen before the call log is opened, because opening would create a new log.
    """
    if recorded is not None:
        check_batch_folder(recorded.path, config.batch)
        check_call_log(recorded, plugins)
    try_agent(config, plugins, folder, recorded)


def _claim_folder(config: RunConfig, plan: Plan) -> RunClaim:
    """Claim the folder of a run. Raises StoreError if another process runs it, or if it can't be
    created.
    """
    if config.out and is_url(config.out):
        return claim_url(config.out)
    # absolute, because plugins may change the working directory
    return claim_folder(run_path(config, plan).absolute())


def open_access(
    config: RunConfig, plugins: Plugins, folder: Path, stop: StopSignal
) -> tuple[RunConfig, ModelAccess]:
    """Open access to the models of a config outside a run, with their call log in `folder`.

    Returns the config, completed with the model's own settings, and the access, which the caller
    must close. Raises KtdevalError.
    """
    config = with_model_settings(config, plugins)
    models = _connect_models(config, plugins)
    access = _open_access(models, config, folder, RunSignals(stop, plugins.emit))
    return access.config_as_sent(config), access


@dataclass(frozen=True)
class _RunModels:
    """Models of a run: its own model, and additional models that its agent calls."""

    own: Model
    price: Price | None  #: price of the run's own model
    further: tuple[RunModel, ...]

    @property
    def remote(self) -> RemoteModel | None:
        """The run's own model if it is remote."""
        return as_remote(self.own)


def _connect_models(
    config: RunConfig, plugins: Plugins, shared: SharedRun | None = None
) -> _RunModels:
    """Return the models of a run, after connecting remote models and checking human models. Raises
    KtdevalError if a model can't be used.
    """
    own = own_model(config, plugins)
    further = further_models(config, plugins)
    if shared is not None:
        further = offer_protocols(further, shared.further_protocols)

    models = _RunModels(own, run_price(config, own), further)
    named = [(config.model, own), *((each.choice.name, each.model) for each in further)]
    for name, model in named:
        if model_traits(model).is_person:
            check_person(name, config, is_shared=shared is not None)

    for name, model in named:
        remote = as_remote(model)
        if remote is not None:
            plugin = plugins.owner("models", plugins.model_spec_name(name)[0])
            connect(remote, f"model {name} of plugin {plugin}")

    return models


def _open_access(
    models: _RunModels,
    config: RunConfig,
    folder: Path,
    signals: RunSignals,
    shared: SharedRun | None = None,
) -> ModelAccess:
    """Return the access to the models of a run. If all its models are free, failed calls never stop
    the run.
    """
    remote = models.remote
    if remote is not None:
        access = RemoteAccess(remote, config, models.price, folder, signals, models.further)
        if shared is not None and shared.allowance is not None:
            access.client.share_budget(shared.allowance)

        return access

    is_free = models.price == FREE and all(each.price == FREE for each in models.further)
    max_errors = None if is_free else config.max_failures
    protocol = local_protocol(config, models.own)
    own = models.own
    if not is_free and not model_traits(own).is_person:
        own = TimedModel.of(own, config)  # it makes calls of its own

    return ModelAccess(own, max_errors, protocol, models.further)


def _create_folder(
    claim: RunClaim, manifest: RunManifest, access: ModelAccess, growth: Growth
) -> RunFolder:
    """Write the manifest of a run, including the identity of its call log."""
    if access.log is not None:
        identity = access.log.identity
        entry = LogEntry(id=identity.id, begun_at=identity.begun_at)
        manifest = replace(manifest, call_log=entry)
    return RunFolder.create(claim, manifest, growth)


def execute_run(run: PreparedRun) -> RunResult:
    """Run the episodes that are not complete, then write the cards.

    Raises KeyboardInterrupt, or ProviderError if the model fails before any episode has run.
    """
    return told_run(
        run.plugins.emit, run.folder.path, tuple(run.plan.specs), partial(_execute_episodes, run)
    )


def _execute_episodes(run: PreparedRun) -> RunResult:
    """Run the episodes that are not complete, then write the cards. Raises as `execute_run`
    does.
    """
    finished = [spec for spec in run.plan.specs if run.folder.is_complete(spec)]
    for spec in finished:
        run.plugins.emit(EpisodeFinished(spec, already_done=True))

    work = [spec for spec in run.plan.specs if spec not in finished]
    if work:
        run.anchors.begin([spec.id for spec in run.plan.specs])
        run.access.begin(run.folder.check_claim)

    if run.access.batches is not None and run.rounds is None:
        ask_in_batches(run.access.batches, run.folder, run.factory, run.stop, work, run.plugins)

    outcomes = _outcomes(run, work)
    run.anchors.stamp()
    failed = tuple(outcome for outcome in outcomes if outcome.error is not None)
    if not failed:
        run.access.finish(run.folder.check_claim)

    errors = {outcome.spec.id: outcome.error or "" for outcome in failed}
    carded = {spec.task for spec in run.plan.specs if run.folder.is_complete(spec)}
    tasks = [task for task in run.plan.tasks.values() if task.name in carded]
    run.access.flush()
    if run.snapshot is not None:
        run.snapshot.forget_figures()  # prompts need them, cards don't

    cards = write_cards(run.folder, tasks, run.snapshot, run.plugins, errors)

    return RunResult(run.folder.path, tuple(cards), failed, len(run.plan.specs), run.stop.reason)


def _outcomes(run: PreparedRun, work: Sequence[EpisodeSpec]) -> Sequence[EpisodeOutcome]:
    """Run episodes with the run's backend.

    Raises PluginError if the backend fails, or does not return an outcome for each episode.
    """
    runner = run.plugins.make_runner(run.config.runner)
    name = run.config.runner
    where = f"runner {name} of plugin {run.plugins.owner('runners', name)}"
    turns = in_turn(work)
    execute = executor(run)
    concurrency = run.config.concurrency
    if run.rounds is not None:
        execute = leaving(run.rounds, execute)
        # every episode must run at once, because a round waits for all of them
        concurrency = max(concurrency, len(turns))
        run.rounds.join(len(turns))

    outcomes = call_through(runner.run, where, turns, execute, concurrency)
    is_list = isinstance(outcomes, list | tuple)
    if not is_list or [getattr(outcome, "spec", None) for outcome in outcomes] != turns:
        raise PluginError(
            f"{where}: run() must return the results of execute() for all episodes, in order"
        )

    planned = {spec.id: number for number, spec in enumerate(work)}
    return sorted(outcomes, key=lambda outcome: planned[outcome.spec.id])


def evaluate(config: RunConfig, plugins: Plugins) -> RunResult:
    """Run a config from plan to cards, as `ktdeval run` does, but without terminal output.

    Raises KtdevalError or KeyboardInterrupt.
    """
    with prepare_run(config, plugins, StopSignal()) as prepared:
        return execute_run(prepared)


def executor(run: PreparedRun) -> Callable[..., EpisodeOutcome]:
    """Return a function that runs one episode on any thread and raises only KeyboardInterrupt.

    The episodes share the objects created here. The function's second argument is the episode's
    fence, which defaults to the fence of the whole run folder.
    """
    factory = run.factory
    outside = outside_of(run.config, run.plugins, run.folder.path, run.folder.files, run.stop.check)
    maker = own_maker(run.plugins)
    emit_lock = threading.Lock()

    def emit(event: Event) -> None:
        with emit_lock:
            run.plugins.emit(event)

    def execute(spec: EpisodeSpec, fence: Fence = run.folder.check_claim) -> EpisodeOutcome:
        access = run.access.for_episode(spec, emit, fence)

        def open_episode() -> Episode:
            if run.rounds is not None and is_scoring(run.plan.tasks[spec.task]):
                assert run.access.batches is not None
                ask_samples(run.access.batches, run.folder, factory, run.stop, spec)
            return factory.open(spec, access.model, access.further, outside)

        context = EpisodeContext(
            open_episode,
            run.folder,
            emit,
            run.stop,
            run.access.redact,
            run.access.max_errors,
            access.counter,
            fence,
            maker,
            run.access.is_repeatable,
            run.anchors,
        )
        return run_episode(spec, context)

    return execute


def check_run_output(config: RunConfig) -> None:
    """Raise StoreError if the run's folder can't be written. For a URL, this only becomes known
    when the run is claimed.
    """
    if config.out and is_url(config.out):
        checked_url(config.out)
        return

    path = user_path(config.out) if config.out else Path(DEFAULT_RUNS_FOLDER)
    check_output(path, "folder", "--out")


def run_path(config: RunConfig, plan: Plan) -> Path:
    """Return the folder of a run: `--out`, or by default `ktdeval-runs/<task>-<model>-<hash>`. If
    `--out` is a URL, this is the local copy.

    The same command always gives the same folder, and so resumes the run.
    """
    if config.out and is_url(config.out):
        return local_copy(config.out)
    if config.out:
        return user_path(config.out.removeprefix("file://"))

    names = list(plan.tasks)
    title = names[0] if len(names) == 1 else f"{len(names)}-tasks"
    label = re.sub(r"[^A-Za-z0-9_.-]+", "-", f"{title}-{plan.specs[0].model}")[:100]
    path = Path(DEFAULT_RUNS_FOLDER) / f"{label}-{run_id(plan.specs)[:8]}"
    first_specs = [as_first_recorded(spec, config.timeout_s) for spec in plan.specs]
    first_path = Path(DEFAULT_RUNS_FOLDER) / f"{label}-{run_id(first_specs)[:8]}"
    # a run that an earlier version began is resumed in its folder
    return first_path if first_path.exists() and not path.exists() else path
