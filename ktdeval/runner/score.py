"""Scoring, the second of the two stages: makes cards from records, and never asks a model."""

from __future__ import annotations

import math
import platform
import subprocess
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import Any

import ktdeval
from ktdeval.calls.call_log import read_calls
from ktdeval.calls.record import call_figures
from ktdeval.cards.card import Card, ScoringCard, TradingCard
from ktdeval.cards.check import ATTACHED, attached_block, load_card, load_evaluation, validate_card
from ktdeval.cards.compare import card_difference, path_text
from ktdeval.cards.inputs import task_problems
from ktdeval.cards.scoring import ScoringInputs, build_scoring_card
from ktdeval.cards.trading import CardInputs, build_card
from ktdeval.contracts.scoring import ScoringTask, is_scoring
from ktdeval.contracts.spec import EpisodeSpec
from ktdeval.contracts.task import Task
from ktdeval.errors import CardError, DataError, StoreError, UsageError
from ktdeval.fields import to_mapping, user_path
from ktdeval.jsonio import JsonValue, content_hash, dumps_pretty, read_plain, sha256_hex, write_atomic
from ktdeval.market.snapshot import MarketSnapshot
from ktdeval.plugin_import import call_foreign
from ktdeval.registry import Plugins
from ktdeval.runner.call_checks import check_call_log
from ktdeval.runner.canary import drift, load_record
from ktdeval.runner.data_source import open_snapshot
from ktdeval.runner.plan import describe_any, target_task_of
from ktdeval.runner.scoring_episode import samples_of
from ktdeval.runner.store import CERTIFICATE, TASK_FILES, RunFolder
from ktdeval.task_files import task_specs

_PACKAGES = ("numpy", "pandas", "pyarrow", "scipy", "zstandard")


@cache  # what this process has imported stays as it was
def source_revision() -> str | None:
    """Return the commit of the checkout that ktdeval runs from; None for an installed wheel or without git."""
    root = Path(ktdeval.__file__).parent.parent
    if not (root / ".git").exists():
        return None
    command = ["git", "-C", str(root), "rev-parse", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)  # noqa: S603 - fixed words
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def describe_environment(wall_s: float, metrics: Mapping[str, str] = MappingProxyType({})) -> Mapping[str, JsonValue]:
    """Return the card's provenance block. `metrics`: plugin of each further metric, by its name."""
    return {
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "suite_version": ktdeval.__version__,
        "source_revision": source_revision(),
        "wall_time_s": round(wall_s, 3),
        "environment": {
            **_versions(),
            **{f"metric {name}": owner for name, owner in metrics.items()},
        },
    }


@cache
def _versions() -> Mapping[str, str]:
    """Return the versions of what this process computes with."""
    packages = {name: metadata.version(name) for name in _PACKAGES}
    return MappingProxyType({"python": platform.python_version(), "platform": platform.platform(terse=True), **packages})


def check_ran(folder: RunFolder, task: Task, plugins: Plugins, spec: EpisodeSpec) -> dict[str, JsonValue]:
    """Return the description of the task that an episode ran. Raises StoreError: the installed one is another."""
    task_json = describe_any(task, plugins)
    if content_hash(task_json) != spec.task_hash:
        raise StoreError(
            f"{folder.path}: {task.name} ran as version {spec.task_version} ({spec.task_hash[:12]}), "
            f"the installed one is {task.version} ({content_hash(task_json)[:12]}); install the version that ran"
            f"{', and give the --items that it ran with' if is_scoring(task) else ''}"
        )
    return task_json


def make_card(
    folder: RunFolder, task: Task, snapshot: MarketSnapshot | None, plugins: Plugins, errors: Mapping[str, str]
) -> TradingCard | ScoringCard:
    """Build the card of one task from its complete episodes; `errors` says by id why others have no ledger. Raises StoreError where
    no episode is complete, or the installed task is not the one that ran.
    """
    manifest = folder.manifest
    specs = [spec for spec in manifest.specs if spec.task == task.name]
    complete = [spec for spec in specs if folder.is_complete(spec)]
    if not complete:
        raise StoreError(f"{folder.path}: no episode of {task.name} is complete; run it again to resume")
    task_json = check_ran(folder, task, plugins, complete[0])
    first, owners = complete[0], plugins.owners("metrics", manifest.metrics)
    common: dict[str, Any] = {
        "task": task_json,
        "snapshot": None if first.snapshot is None else snapshot,
        "specs": specs,
        "artefacts": folder.artefacts(complete),
        "missing_episodes": [
            {"id": spec.id, "error": errors.get(spec.id, "not run to its end")} for spec in specs if spec not in complete
        ],
        "provenance": describe_environment(math.fsum(folder.mark(spec).wall_s for spec in complete), owners),
        "price": manifest.price,
        "knowledge_cutoff": manifest.knowledge_cutoff,
        "registration": manifest.registration,
        "request_settings": manifest.request_settings,
        "drift": drift(load_record(folder.path)),
        "calls": _calls(folder, specs),
        "uncounted": uncounted_replies(folder, complete),
    }
    if is_scoring(task):
        card: TradingCard | ScoringCard = build_scoring_card(_scoring_inputs(common, folder, task, plugins, complete))
    else:
        names = dict.fromkeys((*task.metrics, *manifest.metrics))
        card = build_card(
            CardInputs(
                **common,
                rules=manifest.rules,
                ledgers=[folder.load_ledger(spec) for spec in complete],
                metrics=[plugins.make_metric(name) for name in names],
                plugins=plugins.owners("metrics", names),
                certificate=attached_block(task.mask, task_json, str(first.snapshot), _run_certificate(folder.path), plugins),
            )
        )
    validate_card(card.plain, str(folder.card_path(task.name)))
    own = {name: getattr(task, name) for name in ("name", "version", "mask", "mode")} | {"windows": to_mapping(task.windows)}
    for path, problem in task_problems(card.task, card.windows, own):  # of a task whose description leaves one of these out
        raise StoreError(f"{folder.path}: {path_text(path)}: {problem}")
    return card


def uncounted_replies(folder: RunFolder, complete: Sequence[EpisodeSpec]) -> dict[str, int]:
    """Return by episode its replies whose tokens the provider did not count; a model that bills nothing has none to count."""
    if folder.manifest.is_free:
        return {}
    return {spec.id: folder.mark(spec).said.uncounted for spec in complete}


def _calls(folder: RunFolder, specs: Sequence[EpisodeSpec]) -> dict[str, JsonValue] | None:
    """Return the figures of the episodes' calls, those without an end included; None for a model of this machine."""
    if folder.manifest.request_settings is None:
        return None
    return call_figures(read_calls(folder.path), {spec.id for spec in specs})


def _scoring_inputs(
    common: Mapping[str, Any], folder: RunFolder, task: ScoringTask, plugins: Plugins, complete: Sequence[EpisodeSpec]
) -> ScoringInputs:
    target_task = target_task_of(task, plugins)
    answers = [(spec, folder.load_answers(spec)) for spec in complete]
    scores = call_foreign(
        task.summarise, f"task {task.name}: its scores can't be computed", [record for _, records in answers for record in records]
    )
    return ScoringInputs(
        **common,
        answers=answers,
        samples={spec.id: samples_of(spec, task.samples(spec, common["snapshot"], target_task)) for spec in common["specs"]},
        scores=scores,
        definitions=task.scores,
    )


def _run_certificate(folder: Path) -> Card | None:
    path = folder / CERTIFICATE
    return load_card(path, ATTACHED) if path.exists() else None


def keep_certificate(folder: Path, certificate: str | None) -> None:
    """Keep a certificate with its run, so that cards can be verified from the folder alone. Raises CardError for an invalid one."""
    if certificate is not None:
        load_card(certificate, ATTACHED)
        if problem := certificate_problem(folder, certificate):
            raise StoreError(problem)
        write_atomic(folder / CERTIFICATE, read_plain(user_path(certificate)))


def certificate_problem(folder: Path, certificate: str) -> str | None:
    """Say why a run can't be given a certificate: it has another one."""
    target = folder / CERTIFICATE
    is_other = target.exists() and read_plain(target) != read_plain(user_path(certificate))
    return f"{target}: the run has another certificate; remove it to give its cards {certificate}" if is_other else None


def keep_task_files(folder: Path, plugins: Plugins, tasks: Collection[str]) -> None:
    """Keep the task files that define a run's tasks, so that its records can be scored and verified from the folder alone."""
    for path, names in plugins.task_files.items():
        if set(names) & set(tasks):
            text = Path(path).read_bytes()
            (folder / TASK_FILES).mkdir(exist_ok=True)
            write_atomic(folder / TASK_FILES / f"{sha256_hex(text)[:12]}.yaml", text)


def open_task_files(folder: Path, plugins: Plugins) -> None:
    """Add the tasks of the files that a run kept, where not known already. Raises ConfigError where a file is not a task file."""
    known = plugins.specs("tasks")
    for path in sorted((folder / TASK_FILES).glob("*.yaml")):
        if not {spec.name for spec in task_specs(path)} & known.keys():
            plugins.add_task_file(str(path))


def write_cards(
    folder: RunFolder, tasks: Sequence[Task], snapshot: MarketSnapshot | None, plugins: Plugins, errors: Mapping[str, str]
) -> list[Path]:
    """Write the card of each task; return their paths."""
    paths = []
    for task in tasks:
        path = folder.card_path(task.name)
        write_atomic(path, dumps_pretty(make_card(folder, task, snapshot, plugins, errors).plain))
        paths.append(path)
    return paths


def rescore(path: Path, plugins: Plugins, changes: Mapping[str, Any]) -> list[Path]:
    """Score a run folder again and return the cards; `changes` may name `data` and `data_args` (where the snapshot is now),
    `metrics` (instead of the extra ones), `rules`, `certificate`, `items`. A card of the run stays as it is, but for a certificate
    that it had none of: where its figures differ now, the new card lies in a folder of its own. Raises StoreError or DataError.
    """
    folder = RunFolder.load(path)
    open_task_files(folder.path, plugins)
    if folder.manifest.call_log is not None:
        check_call_log(folder)
    snapshot = open_recorded_snapshot(folder, plugins, changes) if folder.manifest.snapshot else None
    recorded = {"rules": folder.manifest.rules, "metrics": folder.manifest.metrics}
    changed = {name: changes[name] for name, value in recorded.items() if changes.get(name, value) != value}
    folder.manifest = replace(folder.manifest, **changed)
    for name in folder.manifest.metrics:
        plugins.make_metric(name)
    keep_certificate(folder.path, changes.get("certificate"))
    names = dict.fromkeys(spec.task for spec in folder.manifest.specs if folder.is_complete(spec))
    scored = "+".join((*([changed["rules"]] if "rules" in changed else ()), *changed.get("metrics", ())))[:100]  # a folder's name
    paths = []
    for task in (plugins.make_task(name, changes.get("items")) for name in names):
        before = _existing_card(folder.card_path(task.name))
        errors = {entry["id"]: entry["error"] for entry in before.get("missing_episodes", ())}
        card = make_card(folder, task, snapshot, plugins, errors).plain
        paths.append(_free_path(folder, task.name, scored, card))
        paths[-1].parent.mkdir(exist_ok=True)
        write_atomic(paths[-1], dumps_pretty(card))
    return paths


def _free_path(folder: RunFolder, task: str, scored: str, card: Mapping[str, JsonValue]) -> Path:
    """Return where a card can go: no card is there, or the same one, but for a certificate."""
    for number in count(1):
        path = folder.card_path(task, scored if number == 1 else f"{scored or 'scored'}-{number}")
        existing = _existing_card(path)
        if existing.get("certificate", {}).get("value", 0) is None:
            existing = {**existing, **{name: card[name] for name in ("certificate", "labels", "rankable")}}
        if not path.exists() or (existing and card_difference(existing, card) is None):
            return path
    raise AssertionError("unreachable: numbers do not end")


def _existing_card(path: Path) -> dict[str, Any]:
    """Return the content of a card's file; empty where there is none, or none that is valid."""
    try:
        return dict(load_evaluation(path).plain)
    except CardError:
        return {}


def run_of(card: Path) -> Path:
    """Return the run folder that a card lies in: under `cards`, or in a folder of that where it was scored again."""
    folder = card.resolve().parent
    return folder.parent if folder.name == "cards" else folder.parent.parent


def open_recorded_snapshot(folder: RunFolder, plugins: Plugins, changes: Mapping[str, Any]) -> MarketSnapshot:
    """Open a run's snapshot, from where it was or where `changes` says it is now. Raises DataError where it is not the same."""
    recorded = folder.manifest.data
    if recorded is None:
        raise DataError(f"{folder.path}: no task of this run asks about a market")
    if "data" in changes:
        recorded = {"data": changes["data"], "data_args": changes.get("data_args", {})}
    elif changes.get("data_args"):
        raise UsageError("--data-args goes with --data, which names the data provider")
    try:
        snapshot = open_snapshot(plugins, str(recorded["data"]), recorded["data_args"])
    except DataError as error:
        if "data" in changes:
            raise
        raise DataError(f"the market that the run used can't be opened, name it with --data if it has moved: {error}") from error
    if snapshot.id != (used := folder.manifest.snapshot):
        raise DataError(
            f"{recorded['data']} is snapshot {snapshot.id[:12]}, the run used {str(used)[:12]}; name the right one with --data"
        )
    return snapshot


def recorded_market(folder: RunFolder, plugins: Plugins, data: str | None, without: str) -> MarketSnapshot | str:
    """Return a run's market; where it can't be opened, what is missing `without` it, and why. Only a wrong one that was named
    (`data`) is a DataError.
    """
    if data is not None:
        return open_recorded_snapshot(folder, plugins, {"data": data})
    try:
        return open_recorded_snapshot(folder, plugins, {})
    except DataError as error:
        return f"{without}: {error}"
