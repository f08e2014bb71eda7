"""Scoring, the second of two stages: it creates cards from records and never calls a model."""

from __future__ import annotations

import platform
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache, partial
from importlib import metadata
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import Any

from msgspec import structs

import ktdeval
from ktdeval.calls.records.call_log import read_calls
from ktdeval.calls.stop_flag import Fence, no_fence
from ktdeval.cards.assembly import build_card, build_scoring_card
from ktdeval.cards.card import ScoringCard, TradingCard
from ktdeval.cards.card_reading import (
    ATTACHED,
    attached_block,
    load_card,
    load_evaluation,
    validate_card,
)
from ktdeval.cards.fields.card_inputs import CardInputs, EvaluationInputs, ScoringInputs
from ktdeval.cards.fields.episode_parts import RoleUsage
from ktdeval.cards.fields.origin.fact_types import (
    Drift,
    FurtherModelPart,
    Provenance,
    TaskPart,
    WindowPart,
)
from ktdeval.cards.fields.origin.provenance import LIBRARIES
from ktdeval.cards.fields.origin.task import task_problems
from ktdeval.cards.fields.replies.calls import Calls, gather_calls
from ktdeval.cards.json_paths import path_text
from ktdeval.cards.recomputation_diff import card_difference
from ktdeval.errors import CardError, DataError, StoreError, UsageError
from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.registry.metric_groups import metric_names
from ktdeval.registry.plugin_boundary import call_foreign
from ktdeval.registry.plugin_registry import Plugins
from ktdeval.registry.task_files import task_specs
from ktdeval.runner.episodes.episode_parts import limited_steps
from ktdeval.runner.models.model_drift import drift, load_record
from ktdeval.runner.plans.data_source import open_snapshot
from ktdeval.runner.plans.plan import describe_any, target_task_of
from ktdeval.runner.records.anchor_chain import anchor_fact, load_anchors
from ktdeval.runner.records.completion_marks import EpisodeMark, wall_time
from ktdeval.runner.records.run_file_names import ANCHORS, CERTIFICATE, TASK_FILES
from ktdeval.runner.records.run_folder import RunFolder
from ktdeval.runner.records.run_manifest import DataSource
from ktdeval.runner.records.transcript_counts import Said, count_said
from ktdeval.runner.scoring.call_log_checks import check_call_log, check_models
from ktdeval.runner.scoring.deciders import run_deciders
from ktdeval.stats.metric import RecordedTranscript
from ktdeval.stores.git_commands import git_around
from ktdeval.stores.mirror import keep_file
from ktdeval.task_api.episode_spec import EpisodeSpec
from ktdeval.task_api.scoring import ScoringTask, is_scoring
from ktdeval.task_api.trading_task import Task
from ktdeval.task_api.traits import task_traits
from ktdeval.values.disk.files import read_plain
from ktdeval.values.documents.strict_json import JsonValue, dumps_pretty
from ktdeval.values.documents.typed_json import from_plain
from ktdeval.values.hashes import content_hash, sha256_hex
from ktdeval.values.options.config_options import to_mapping, user_path
from ktdeval.values.progress_reports import Tell, tell_nobody


@cache  # imported code does not change while this process runs
def source_revision() -> str | None:
    """Return the commit of the checkout that contains ktdeval. None for an installed wheel, or if
    git is not available.
    """
    root = Path(ktdeval.__file__).parent.parent
    if not (root / ".git").exists():
        return None

    try:
        git = git_around(root)
        found = None if git is None else git.answer("rev-parse", "HEAD")
    except StoreError:
        return None

    return None if found is None else found.decode("ascii").strip()


def describe_environment(wall_s: float) -> Mapping[str, JsonValue]:
    """Return a card's provenance block without calls, anchors and additional metrics.

    `wall_s`: seconds that the work took.
    """
    fields = structs.asdict(describe_provenance(wall_s, None, {}))
    del fields["calls"], fields["anchors"]
    return fields


def describe_provenance(
    wall_s: float, calls: Calls | None, metrics: Mapping[str, str]
) -> Provenance:
    """Return a card's provenance block.

    `wall_s`: seconds that the episodes took. `calls`: calls to the provider. `metrics`: the plugin
    that provides each additional metric, keyed by metric name.
    """
    owners = {f"metric {name}": owner for name, owner in metrics.items()}
    return Provenance(
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        suite_version=ktdeval.__version__,
        source_revision=source_revision(),
        wall_time_s=round(wall_s, 3),
        environment={**_versions(), **owners},
        calls=calls,
    )


def with_anchors(provenance: Provenance, folder: RunFolder) -> Provenance:
    """Return a provenance block with what the run's chain of anchors says, if it kept one. Raises
    StoreError if the chain is broken.
    """
    path = folder.path / ANCHORS
    if not path.exists():
        return provenance
    return structs.replace(provenance, anchors=anchor_fact(load_anchors(path)))


@cache
def _versions() -> Mapping[str, str]:
    """Return the versions of Python, the platform and the libraries that compute results."""
    packages = {name: metadata.version(name) for name in LIBRARIES}
    return MappingProxyType(
        {"python": platform.python_version(), "platform": platform.platform(terse=True), **packages}
    )


def check_ran(
    folder: RunFolder, task: Task, plugins: Plugins, spec: EpisodeSpec
) -> dict[str, JsonValue]:
    """Return the description of the task that an episode ran. Raises StoreError if the installed
    task is different.
    """
    description = describe_any(task, plugins)
    installed = content_hash(description)
    if installed != spec.task_hash:
        advice = "install the version that was run"
        if is_scoring(task):
            advice += ", and give the --items with which it was run"

        raise StoreError(
            f"{folder.path}: {task.name} was run as version {spec.task_version}"
            f" ({spec.task_hash[:12]}), but the installed version is {task.version}"
            f" ({installed[:12]}); {advice}"
        )

    return description


def make_card(
    folder: RunFolder,
    task: Task,
    snapshot: MarketSnapshot | None,
    plugins: Plugins,
    errors: Mapping[str, str],
    tell: Tell = tell_nobody,
) -> TradingCard | ScoringCard:
    """Build the card of a task from its complete episodes.

    `errors`: reasons why other episodes are incomplete, keyed by episode id. `tell` is called for
    each episode whose metrics are computed. Raises StoreError if no episode is complete, or if the
    installed task differs from the task that ran.
    """
    inputs = make_inputs(folder, task, snapshot, plugins, errors)
    card: TradingCard | ScoringCard
    if isinstance(inputs, ScoringInputs):
        card = build_scoring_card(inputs)
    else:
        card = build_card(inputs, tell)

    validate_card(card.plain, str(folder.card_path(task.name)))
    problem = _own_task_problem(task, card.task, card.windows)
    if problem is not None:
        raise StoreError(f"{folder.path}: {problem}")

    return card


def make_inputs(
    folder: RunFolder,
    task: Task,
    snapshot: MarketSnapshot | None,
    plugins: Plugins,
    errors: Mapping[str, str] = MappingProxyType({}),
) -> CardInputs | ScoringInputs:
    """Return the inputs for a task's card. Arguments and errors are as for `make_card`.

    Also raises StoreError if a record has changed since its episode ended.
    """
    complete = folder.complete_specs(task.name)
    if not complete:
        raise StoreError(
            f"{folder.path}: no episode of {task.name} is complete; run it again to resume"
        )

    market = None if complete[0].snapshot is None else snapshot
    description = check_ran(folder, task, plugins, complete[0])
    inputs = _run_inputs(folder, complete, plugins, errors, description, market)
    if is_scoring(task):
        return _scoring_inputs(inputs, folder, task, plugins, complete)
    return _trading_inputs(inputs, folder, task, plugins, complete)


def _run_inputs(
    folder: RunFolder,
    complete: Sequence[EpisodeSpec],
    plugins: Plugins,
    errors: Mapping[str, str],
    description: Mapping[str, JsonValue],
    market: MarketSnapshot | None,
) -> EvaluationInputs:
    """Return the inputs that trading and scoring cards have in common. `complete`: one or more
    complete episodes of the task.
    """
    manifest = folder.manifest
    specs = folder.specs_of(complete[0].task)
    marks = {spec.id: folder.mark(spec) for spec in complete}
    said = {spec.id: _count_transcript(folder, spec, marks[spec.id]) for spec in complete}
    missing = [spec.id for spec in specs if spec.id not in marks]
    calls = None
    if manifest.request_settings is not None:  # counts calls of unfinished episodes too
        calls = gather_calls(read_calls(folder.path), {spec.id for spec in specs})

    owners = plugins.owners("metrics", manifest.metrics)
    return EvaluationInputs(
        task=description,
        snapshot=market,
        specs=specs,
        artefacts=folder.artefacts(complete),
        missing_episodes={id_: errors.get(id_, "not run to its end") for id_ in missing},
        provenance=with_anchors(
            describe_provenance(wall_time(marks.values()), calls, owners), folder
        ),
        deciders=run_deciders(specs[0], plugins, said.values()),
        foreign=manifest.foreign,
        served={id_: each.served for id_, each in said.items()},
        makers={id_: mark.made_by for id_, mark in marks.items()},
        price=manifest.price,
        knowledge_cutoff=manifest.knowledge_cutoff,
        registration=manifest.registration,
        key_source=manifest.key_source,
        request_settings=manifest.request_settings,
        drift=from_plain(drift(load_record(folder.path)), Drift, "drift"),
        uncounted={id_: each.uncounted for id_, each in said.items() if not manifest.is_free},
        further_models=further_parts(folder, specs[0]),
        roles={id_: _due_roles(each.roles, manifest.is_free) for id_, each in said.items()},
    )


def _count_transcript(folder: RunFolder, spec: EpisodeSpec, mark: EpisodeMark) -> Said:
    """Return the counts of a complete episode's transcript.

    They are taken from the episode's mark, since verification recounts them. Old marks lack the
    names of the models that answered; the transcript is then counted again.
    """
    if folder.manifest.request_settings is None or mark.said.served:
        return mark.said

    return count_said(folder.load_transcript(spec))


def _due_roles(usages: Sequence[RoleUsage], is_free: bool) -> tuple[RoleUsage, ...]:
    """Return calls by role and model. If the models are free, replies without a token count are not
    reported.
    """
    if not is_free:
        return tuple(usages)
    return tuple(structs.replace(usage, uncounted=0) for usage in usages)


def further_parts(folder: RunFolder, spec: EpisodeSpec) -> list[FurtherModelPart]:
    """Return a run's additional models, as its cards record them."""
    parts = []
    for model in spec.further_models:
        facts = structs.asdict(folder.manifest.further_models[model.asked_as])
        parts.append(FurtherModelPart(**vars(model), **facts))

    return parts


def _own_task_problem(task: Task, recorded: TaskPart, windows: Sequence[WindowPart]) -> str | None:
    """Return the first difference between a card's task and the installed task; None if they agree.

    This also covers fields that the task's description omits, which card validation can't check.
    """
    own = {name: getattr(task, name) for name in ("name", "version", "mask", "mode")}
    own["windows"] = to_mapping(task.windows)
    for path, problem in task_problems(recorded, windows, own):
        return f"{path_text(path)}: {problem}"

    return None


def _trading_inputs(
    inputs: EvaluationInputs,
    folder: RunFolder,
    task: Task,
    plugins: Plugins,
    complete: Sequence[EpisodeSpec],
) -> CardInputs:
    names = tuple(dict.fromkeys((*task.metrics, *folder.manifest.metrics)))
    market = str(complete[0].snapshot)
    path = folder.path / CERTIFICATE
    certificate = load_card(path, ATTACHED) if path.exists() else None

    return CardInputs(
        **vars(inputs),
        rules=folder.manifest.rules,
        prescribes_fills=task_traits(task).prescribes_fills,
        ledgers=[folder.load_ledger(spec) for spec in complete],
        metrics=[plugins.make_metric(name) for name in names],
        transcripts={
            spec.id: RecordedTranscript(partial(folder.load_transcript, spec)) for spec in complete
        },
        plugins=plugins.owners("metrics", names),
        certificate=attached_block(task.mask, inputs.task, market, certificate, plugins),
    )


def _scoring_inputs(
    inputs: EvaluationInputs,
    folder: RunFolder,
    task: ScoringTask,
    plugins: Plugins,
    complete: Sequence[EpisodeSpec],
) -> ScoringInputs:
    answers = [(spec, folder.load_answers(spec)) for spec in complete]
    every_answer = [record for _, records in answers for record in records]
    scores = call_foreign(
        task.summarise, f"task {task.name}: its scores can't be computed", every_answer
    )

    target_task = target_task_of(task, plugins)
    samples = {}
    for spec in inputs.specs:
        found = task.samples(spec, inputs.snapshot, target_task)
        samples[spec.id] = limited_steps(spec, len(found))

    return ScoringInputs(
        **vars(inputs), answers=answers, samples=samples, scores=scores, definitions=task.scores
    )


def keep_certificate(folder: Path, certificate: str | None) -> None:
    """Store a certificate with its run, so that the folder is all that is needed to verify the
    cards.

    Raises CardError if the certificate is invalid. Raises StoreError if the run has a different
    one.
    """
    if certificate is not None:
        load_card(certificate, ATTACHED)
        problem = certificate_problem(folder, certificate)
        if problem is not None:
            raise StoreError(problem)

        keep_file(folder / CERTIFICATE, read_plain(user_path(certificate)))


def certificate_problem(folder: Path, certificate: str) -> str | None:
    """Return a message if a run already has a different certificate; None if this certificate can
    be attached.
    """
    target = folder / CERTIFICATE
    if not target.exists() or read_plain(target) == read_plain(user_path(certificate)):
        return None
    return (
        f"{target}: the run has another certificate; remove it to attach {certificate} to its cards"
    )


def keep_task_files(folder: Path, plugins: Plugins, tasks: Collection[str]) -> None:
    """Store the task files that define a run's tasks, so that the folder is all that is needed to
    score and verify the records.
    """
    for path, names in plugins.task_files.items():
        if set(names) & set(tasks):
            text = Path(path).read_bytes()
            (folder / TASK_FILES).mkdir(exist_ok=True)
            keep_file(folder / TASK_FILES / f"{sha256_hex(text)[:12]}.yaml", text)


def open_run(path: Path, plugins: Plugins) -> RunFolder:
    """Open a run folder, adding the tasks in its task files to `plugins` if they are unknown.

    All code that needs the tasks of an existing run must open the run with this function. Raises
    StoreError if the folder has no run. Raises ConfigError if a stored file is not a task file.
    """
    folder = RunFolder.load(path)
    known = plugins.specs("tasks")
    for file in sorted((folder.path / TASK_FILES).glob("*.yaml")):
        names = {spec.name for spec in task_specs(file)}
        if names.isdisjoint(known):
            plugins.add_task_file(str(file))

    return folder


def write_cards(
    folder: RunFolder,
    tasks: Sequence[Task],
    snapshot: MarketSnapshot | None,
    plugins: Plugins,
    errors: Mapping[str, str],
    fence: Fence = no_fence,
) -> list[Path]:
    """Write the card of each task and return the paths. `fence` is called before each write."""
    paths = []
    for task in tasks:
        path = folder.card_path(task.name)
        card = make_card(folder, task, snapshot, plugins, errors)
        fence()
        keep_file(path, dumps_pretty(card.plain))
        paths.append(path)

    return paths


def rescore(
    path: Path,
    plugins: Plugins,
    changes: Mapping[str, Any],
    tell: Tell = tell_nobody,
    is_published: bool = False,
) -> list[Path]:
    """Score a run folder again and return the paths of the cards.

    `changes` may contain `data` and `data_args` (current location of the snapshot), `metrics` (to
    replace the additional metrics), `rules`, `certificate` and `items`. An existing card is never
    changed, except that a certificate may be added. If its figures would now differ, the new card
    is written to another folder. `tell` is called for each episode. `is_published`: True for a copy
    for a leaderboard, which has no call log. Raises StoreError or DataError.
    """
    asked = changes.get("metrics", ())
    if asked:
        changes = {**changes, "metrics": metric_names(plugins, asked)}

    folder = open_run(path, plugins)
    if is_published:
        check_models(folder, plugins)
    else:
        check_call_log(folder, plugins)

    snapshot = open_market_of_run(folder, plugins, changes)
    recorded = {"rules": folder.manifest.rules, "metrics": folder.manifest.metrics}
    changed = {}
    for name, value in recorded.items():
        if changes.get(name, value) != value:
            changed[name] = changes[name]

    folder.manifest = replace(folder.manifest, **changed)
    for name in folder.manifest.metrics:
        plugins.make_metric(name)  # reports unknown metrics before any work is done

    keep_certificate(folder.path, changes.get("certificate"))
    paths = []
    for name in dict.fromkeys(spec.task for spec in folder.complete_specs()):
        task = plugins.make_task(name, changes.get("items"))
        before = _existing_card(folder.card_path(task.name))
        errors = {entry["id"]: entry["error"] for entry in before.get("missing_episodes", ())}
        card = make_card(folder, task, snapshot, plugins, errors, tell).plain

        path = _free_path(folder, task.name, _scored_name(changed, asked), card)
        path.parent.mkdir(exist_ok=True)
        keep_file(path, dumps_pretty(card))
        paths.append(path)

    return paths


def _scored_name(changed: Mapping[str, Any], asked: Sequence[str]) -> str:
    """Return the name of the folder for cards with different rules or metrics; empty if both are
    unchanged. `asked`: metrics and metric groups as requested.
    """
    words = [changed["rules"]] if "rules" in changed else []
    if "metrics" in changed:
        words += asked

    return "+".join(words)[:100]


def _free_path(folder: RunFolder, task: str, scored: str, card: Mapping[str, JsonValue]) -> Path:
    """Return a path that has no card yet, or whose card differs from this one in its certificate at
    most.
    """
    for number in count(1):
        variant = scored if number == 1 else f"{scored or 'scored'}-{number}"
        path = folder.card_path(task, variant)
        if not path.exists():
            return path

        existing = _existing_card(path)
        has_certificate = existing.get("certificate", {}).get("value", 0) is not None
        if existing and not has_certificate:
            for name in ("certificate", "labels", "rankable"):
                existing[name] = card[name]

        if existing and card_difference(existing, card) is None:
            return path

    raise AssertionError("unreachable: numbers do not end")


def _existing_card(path: Path) -> dict[str, Any]:
    """Return the contents of a card file; empty if the file is missing or is not a valid card."""
    try:
        return dict(load_evaluation(path).plain)
    except CardError:
        return {}


def run_of(card: Path) -> Path:
    """Return the run folder that contains a card. Cards are in `cards` or, if the run was rescored,
    in a subfolder of `cards`.
    """
    folder = card.resolve().parent
    return folder.parent if folder.name == "cards" else folder.parent.parent


def open_recorded_snapshot(
    folder: RunFolder, plugins: Plugins, changes: Mapping[str, Any]
) -> MarketSnapshot:
    """Open a run's snapshot from its recorded location, or from the location in `changes`. Raises
    DataError if a different snapshot is found there.
    """
    if folder.manifest.data is None:
        raise DataError(f"{folder.path}: no task of this run needs a market")

    source = from_plain(folder.manifest.data, DataSource, "data")
    if "data" in changes:
        source = DataSource(data=str(changes["data"]), data_args=changes.get("data_args", {}))
    elif changes.get("data_args"):
        raise UsageError("--data-args needs --data, which names the data provider")

    try:
        snapshot = open_snapshot(plugins, source.data, source.data_args)
    except DataError as error:
        if "data" in changes:
            raise

        raise DataError(
            "the run's market can't be opened; if it has moved, give its location with --data:"
            f" {error}"
        ) from error

    used = folder.manifest.snapshot
    if snapshot.id != used:
        raise DataError(
            f"{source.data} is snapshot {snapshot.id[:12]}, but the run used {str(used)[:12]};"
            " give the right one with --data"
        )

    return snapshot


def open_market_of_run(
    folder: RunFolder, plugins: Plugins, changes: Mapping[str, Any]
) -> MarketSnapshot | None:
    """Open a run's snapshot as `open_recorded_snapshot` does. Returns None for a run without a
    market.
    """
    if not folder.manifest.snapshot:
        return None
    return open_recorded_snapshot(folder, plugins, changes)


def recorded_market(
    folder: RunFolder, plugins: Plugins, data: str | None, without: str
) -> MarketSnapshot | str:
    """Return a run's market or, if it can't be opened, a note.

    The note begins with `without`, which states what is then missing, and gives the reason. If
    `data` is given, errors are raised instead.
    """
    if data is not None:
        return open_recorded_snapshot(folder, plugins, {"data": data})
    try:
        return open_recorded_snapshot(folder, plugins, {})
    except DataError as error:
        return f"{without}: {error}"
