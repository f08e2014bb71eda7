"""Certify a mask by putting a probe set to all attackers and recording what they recover; verify a
certificate by attacking its probe set again.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, cast

from ktdeval.cards import card_difference, load_card, validate_card
from ktdeval.errors import CardError, ConfigError, StoreError
from ktdeval.market import MarketSnapshot
from ktdeval.registry import Plugins
from ktdeval.runner import (
    RunFolder,
    describe_any,
    describe_environment,
    mask_key_of,
    open_snapshot,
    recorded_run,
    verify_records,
)
from ktdeval.task_api import ScoringTask, describe_task
from ktdeval.values import (
    JsonValue,
    content_hash,
    lasting_data,
    read_plain,
    sha256_hex,
    to_mapping,
    to_object,
    to_plain,
)
from ktdeval_deanon.certificate.attack_results import attack_questions, read_attacks
from ktdeval_deanon.certificate.card import KIND, build_certificate, covered_by, stated_mask
from ktdeval_deanon.certificate.date_paths import attack_paths, path_count
from ktdeval_deanon.certificate.positive_control import LEVEL, MIN_READ, needs_of
from ktdeval_deanon.certificate.questions import (
    Entry,
    ProbeChoice,
    ProbeSet,
    find_scoring_task,
    open_questions,
    per_window,
)
from ktdeval_deanon.certificate.types import Certificate
from ktdeval_deanon.certificate.unmasked_probes import open_control

#: Called with the number of probes and whole episodes done, and the total
OnProbe = Callable[[int, int], None]


@dataclass(frozen=True)
class CertifyConfig:
    """Options of `certify`."""

    task: str  #: name of the trading task
    exam: str = ""  #: name of the scoring task that asks about it; empty to find one
    data: str = "synthetic"  #: data provider, as in a run; likewise `data_args`
    data_args: Mapping[str, JsonValue] = field(default_factory=dict)
    windows: tuple[str, ...] = ()  #: windows to ask; the scoring task's own if empty
    probes: int | None = None  #: total number of probes, the first of each window; None for all
    seed: int = 0  #: seed of the probe set
    #: key that the handles are drawn from; None for the key of the runs, or a new one
    mask_key: str | None = None
    #: folders of finished runs of the scoring task, one per attacking model
    runs: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class CertifiedMask:
    """A valid certificate and its probe set. The probe set maps file names to file contents, with
    the true answers in a separate file.
    """

    certificate: Certificate
    files: Mapping[str, str]


def certify(config: CertifyConfig, plugins: Plugins, on_probe: OnProbe) -> CertifiedMask:
    """Draw the probe set, attack it, and build the certificate.

    Raises KtdevalError if the config is unusable, or if the model in a run was asked something
    else.
    """
    began = time.perf_counter()
    task = find_scoring_task(config.exam, config.task, plugins)
    each = None if config.probes is None else per_window(task, config.windows, config.probes)
    snapshot = open_snapshot(plugins, config.data, config.data_args)
    key = config.mask_key or _mask_key_of_runs(config.runs) or secrets.token_hex(16)
    choice = ProbeChoice(config.windows, config.seed, each, key)
    questions = open_questions(task, plugins, snapshot, choice)
    control = open_control(questions, plugins, choice)
    attacks = read_attacks(config.runs, questions, control)
    parts = _parts(ProbeQuestions(questions, control), plugins, attacks, on_probe)
    provenance = {
        **describe_environment(time.perf_counter() - began),
        "data": lasting_data(config.data),
        "data_args": dict(config.data_args),
    }
    certificate = build_certificate({**parts, "provenance": provenance})
    validate_card(certificate.plain, "certificate")

    return CertifiedMask(certificate, questions.files)


def _mask_key_of_runs(runs: Sequence[Path]) -> str | None:
    """Return the mask key of the first run that has one; None if no run does."""
    for run in runs:
        key = mask_key_of(recorded_run(run))
        if key:
            return key

    return None


def verify_certificate(
    path: Path,
    plugins: Plugins,
    changes: Mapping[str, Any],
    runs: Sequence[Path],
    on_probe: OnProbe = lambda *_: None,
) -> str | None:
    """Redraw a certificate's probe set and attack it again. Return the first line that differs;
    None if everything is as recorded.

    `changes`: `data` and `data_args`, if the snapshot has moved. `runs`: runs of the attacking
    models, in the certificate's order; their answers must follow from the recorded replies. Without
    runs, the models' counts are accepted as recorded and only the figures derived from them are
    checked, so the certificate remains merely claimed. Raises CardError if the certificate is
    invalid or belongs to another snapshot; StoreError if another version of the tasks is installed,
    or a run did not attack this certificate; DataError if the snapshot is missing.
    """
    recorded = cast(Certificate, load_card(path, KIND))
    exam = recorded.exam
    probes = recorded.probes
    where = recorded.provenance
    task = find_scoring_task(exam.name, recorded.covers.task_name, plugins)
    installed = content_hash(describe_any(task, plugins))
    if installed != exam.hash:
        raise StoreError(
            f"{path}: {task.name} asked as version {exam.version} ({exam.hash[:12]}), the installed"
            f" one is {task.version} ({installed[:12]}); install the version that asked"
        )

    data = where.data
    data_args: Mapping[str, JsonValue] = where.data_args
    if "data" in changes:
        data = changes["data"]
        data_args = changes.get("data_args", {})

    snapshot = open_snapshot(plugins, data, data_args)
    if snapshot.id != recorded.snapshot.id:
        both = f"was made on snapshot {recorded.snapshot.id[:12]}, but {data} is {snapshot.id[:12]}"
        raise CardError(f"{path}: {both}; name the right one with --data")

    # The same contents, imported again, may have a different name and source.
    if "data" in changes:
        shown = recorded.snapshot
        meta = replace(snapshot.meta, name=shown.name, source=shown.source)
        snapshot = replace(snapshot, meta=meta)

    # A window given as a date range is named after the range.
    windows = tuple(window.name for window in probes.windows)
    choice = ProbeChoice(windows, probes.seed, probes.limit, probes.mask_key)
    questions = open_questions(task, plugins, snapshot, choice)
    control = open_control(questions, plugins, choice)

    if runs:
        attacks = read_attacks(runs, questions, control)
        tasks = {questions.task.name: questions.task, control.task.name: control.task}
        difference = _record_difference(runs, tasks, plugins, snapshot)
        if difference:
            return difference
    else:
        of_models: dict[str, str] = {}
        for name, digest in recorded.artefacts.items():
            if name not in questions.files:
                of_models[name] = digest

        attacks = ([to_object(attacker) for attacker in recorded.models], of_models)

    parts = _parts(ProbeQuestions(questions, control), plugins, attacks, on_probe)
    again = build_certificate({**parts, "provenance": to_plain(where)})
    return card_difference(recorded.plain, again.plain, read_plain(path).decode())


def _record_difference(
    runs: Sequence[Path], tasks: Mapping[str, Any], plugins: Plugins, snapshot: MarketSnapshot
) -> str | None:
    """Return the first record in the runs that does not follow from its recorded replies; None if
    all records do.
    """
    for run in runs:
        folder = RunFolder.load(run)
        asked = {spec.task for spec in folder.manifest.specs}
        for name, task in tasks.items():
            if name not in asked:
                continue

            findings = verify_records(folder, task, plugins, snapshot).findings
            if findings:
                return f"{run}: {findings[0]}"

    return None


class ProbeQuestions(NamedTuple):
    """Masked questions, and unmasked questions about the same windows."""

    questions: ProbeSet
    control: ProbeSet


def _parts(
    asked: ProbeQuestions,
    plugins: Plugins,
    attacks: tuple[list[Entry], dict[str, str]],
    on_probe: OnProbe,
) -> Entry:
    """Return the parts of a certificate that depend on neither the time nor the machine."""
    models, artefacts = attacks
    questions, control = asked
    task = questions.task
    target_task = questions.target_task
    snapshot = questions.snapshot
    described = describe_task(target_task.task, target_task.tools)
    covers = covered_by(described, snapshot.id)
    _check_mask(questions, stated_mask(described))
    asked_count = len(questions.all) + len(control.all)
    total = asked_count + path_count(questions)
    attackers, identifiability = attack_questions(
        questions, control, lambda done: on_probe(done, total)
    )
    paths = attack_paths(questions, lambda done: on_probe(asked_count + done, total))
    files = {name: sha256_hex(text) for name, text in questions.files.items()}
    definitions: Entry = {}
    for name in questions.recoveries:
        score = task.scores[name]
        definitions[name] = {
            "formula": score.formula,
            "unit": score.unit,
            "better": score.better,
            "source": score.source,
        }

    return {
        "covers": covers,
        "exam": _exam(task, plugins),
        "snapshot": {
            "name": snapshot.meta.name,
            "source": snapshot.meta.source,
            "synthetic": snapshot.meta.synthetic,
            "id": snapshot.id,
            "assets": len(snapshot.codes),
            "first_day": str(snapshot.days[0]),
            "last_day": str(snapshot.days[-1]),
        },
        "probes": questions.describe(),
        "control": {
            "exam": _exam(control.task, plugins),
            "count": len(control.all),
            "sha256": control.describe()["sha256"],
            "level": LEVEL,
            "least_read": MIN_READ,
            "needs": needs_of(questions.recoveries),
        },
        "definitions": definitions,
        "score_order": list(questions.recoveries),
        "attackers": [*attackers, *models],
        "identifiability": identifiability,
        "paths": paths,
        "artefacts": {**files, **artefacts},
    }


def _exam(task: ScoringTask, plugins: Plugins) -> Entry:
    """Return the scoring task that asked, with a hash of all that can change its questions."""
    return {
        "name": task.name,
        "version": task.version,
        "hash": content_hash(describe_any(task, plugins)),
    }


def _check_mask(questions: ProbeSet, stated: Mapping[str, Any]) -> None:
    """Raise ConfigError if a probe's mask differs from the mask in the task's description; the
    certificate would then name the wrong mask.
    """
    for question in questions.all:
        shown = to_mapping(question.sample.lens.mask)
        for name in sorted({*shown, *stated}):
            if shown.get(name) != stated.get(name):
                raise ConfigError(
                    f"task {questions.target_task.task.name}: its probes are masked with {name}"
                    f" {shown.get(name)!r}, its config says {stated.get(name)!r}; a config must"
                    " state its mask"
                )
