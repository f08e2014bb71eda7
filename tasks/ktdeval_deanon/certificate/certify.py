"""Certify a mask: put a probe set to all attackers, and record what they recovered; and check such a certificate."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, cast

from ktdeval.cards import card_difference, load_card, validate_card
from ktdeval.contracts import ScoringTask, describe_task
from ktdeval.errors import CardError, ConfigError, StoreError
from ktdeval.fields import lasting_data, to_mapping
from ktdeval.jsonio import JsonValue, content_hash, read_plain, sha256_hex
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
from ktdeval.typed import to_plain
from ktdeval_deanon.certificate.attackers import attack_questions, read_attacks
from ktdeval_deanon.certificate.card import KIND, build_certificate, covered_by
from ktdeval_deanon.certificate.control import open_control
from ktdeval_deanon.certificate.passing import LEAST_READ, LEVEL, needs_of
from ktdeval_deanon.certificate.questions import Entry, ProbeChoice, Questions, find_scoring_task, open_questions, per_window
from ktdeval_deanon.certificate.types import Certificate

OnProbe = Callable[[int, int], None]  #: Called with the number of probes done, and of all


@dataclass(frozen=True)
class CertifyConfig:
    """Options of `certify`."""

    task: str  #: name of the trading task
    exam: str = ""  #: name of the scoring task that asks about it; empty to find it
    data: str = "synthetic"  #: as of a run, like `data_args`
    data_args: Mapping[str, JsonValue] = field(default_factory=dict)
    windows: tuple[str, ...] = ()  #: of the scoring task; its own when empty
    probes: int | None = None  #: how many in all, the first ones of each window; None for all
    seed: int = 0  #: of the probe set
    mask_key: str | None = None  #: what its handles are drawn from; None for that of the runs, or a new one
    runs: tuple[Path, ...] = ()  #: folders of finished runs of the scoring task, each a model that attacked


class Certified(NamedTuple):
    """A valid certificate, and its probe set: name of a file -> text, with the true answers in a file of their own."""

    certificate: Certificate
    files: Mapping[str, str]


def certify(config: CertifyConfig, plugins: Plugins, on_probe: OnProbe) -> Certified:
    """Draw the probe set, attack it, and build the certificate.

    Raises KtdevalError: anything in the config that can't work, in one line; a run whose model was asked something else.
    """
    began = time.perf_counter()
    task = find_scoring_task(config.exam, config.task, plugins)
    each = None if config.probes is None else per_window(task, config.windows, config.probes)
    snapshot = open_snapshot(plugins, config.data, config.data_args)
    key = config.mask_key or next((key for run in config.runs if (key := mask_key_of(recorded_run(run)))), secrets.token_hex(16))
    choice = ProbeChoice(config.windows, config.seed, each, key)
    questions = open_questions(task, plugins, snapshot, choice)
    control = open_control(questions, plugins, choice)
    attacks = read_attacks(config.runs, questions, control)
    parts = _parts(Asked(questions, control), plugins, attacks, on_probe)
    source = {"data": lasting_data(config.data), "data_args": dict(config.data_args)}
    provenance = {**describe_environment(time.perf_counter() - began), **source}
    certificate = build_certificate({**parts, "provenance": provenance})
    validate_card(certificate.plain, "certificate")
    return Certified(certificate, questions.files)


def verify_certificate(
    path: Path, plugins: Plugins, changes: Mapping[str, Any], runs: Sequence[Path], on_probe: OnProbe = lambda *_: None
) -> str | None:
    """Draw a certificate's probe set again, attack it again, and return the first line that differs; None when all is as recorded.

    `changes`: `data` and `data_args`, where the snapshot is now. `runs`: of the models that attacked, in the certificate's order,
    whose answers must follow from the recorded replies; without any, their counts are taken as recorded, and only what follows from
    these is checked: the certificate stays claimed. Raises CardError: it is not a valid certificate, or of another snapshot;
    StoreError: another version of the tasks is installed, or a run is not one of those that attacked; DataError: the snapshot is
    not there.
    """
    recorded = cast(Certificate, load_card(path, KIND))
    exam, probes, where = recorded.exam, recorded.probes, recorded.provenance
    task = find_scoring_task(exam.name, recorded.covers.task_name, plugins)
    installed = content_hash(describe_any(task, plugins))
    if installed != exam.hash:
        raise StoreError(
            f"{path}: {task.name} asked as version {exam.version} ({exam.hash[:12]}), the installed one is {task.version} "
            f"({installed[:12]}); install the version that asked"
        )
    data = changes.get("data", where.data)
    snapshot = open_snapshot(plugins, data, changes.get("data_args", {}) if "data" in changes else where.data_args)
    if snapshot.id != recorded.snapshot.id:
        both = f"is of snapshot {recorded.snapshot.id[:12]}, {data} is {snapshot.id[:12]}"
        raise CardError(f"{path}: {both}; name the right one with --data")
    # A range of days is a window's name, so names bring all of them back.
    choice = ProbeChoice(tuple(window.name for window in probes.windows), probes.seed, probes.limit, probes.mask_key)
    questions = open_questions(task, plugins, snapshot, choice)
    control = open_control(questions, plugins, choice)
    if runs:
        attacks = read_attacks(runs, questions, control)
        if difference := _record_difference(runs, {one.task.name: one.task for one in (questions, control)}, plugins, snapshot):
            return difference
    else:
        kept = {name: digest for name, digest in recorded.artefacts.items() if name not in questions.files}
        attacks = ([to_plain(attacker) for attacker in recorded.models], kept)
    parts = _parts(Asked(questions, control), plugins, attacks, on_probe)
    again = build_certificate({**parts, "provenance": to_plain(where)})
    return card_difference(recorded.plain, again.plain, read_plain(path).decode())


def _record_difference(runs: Sequence[Path], tasks: Mapping[str, Any], plugins: Plugins, snapshot: MarketSnapshot) -> str | None:
    """Return the first record of the runs that its recorded replies do not give; None where all follow."""
    for run in runs:
        folder = RunFolder.load(run)
        asked = {spec.task for spec in folder.manifest.specs}
        for name, task in tasks.items():
            if name in asked and (findings := verify_records(folder, task, plugins, snapshot).findings):
                return f"{run}: {findings[0]}"
    return None


class Asked(NamedTuple):
    """Questions behind the mask, and the unmasked ones about the same windows."""

    questions: Questions
    control: Questions


def _parts(asked: Asked, plugins: Plugins, attacks: tuple[list[Entry], dict[str, str]], on_probe: OnProbe) -> Entry:
    """Everything of a certificate that is not of this moment."""
    models, artefacts = attacks
    questions, control = asked
    task, target_task, snapshot = questions.task, questions.target_task, questions.snapshot
    covers = covered_by(describe_task(target_task.task, target_task.tools), snapshot.id)
    _check_mask(questions, covers["mask"])
    total = len(questions.all) + len(control.all)
    attackers, identifiability = attack_questions(questions, control, lambda done: on_probe(done, total))
    files = {name: sha256_hex(text) for name, text in questions.files.items()}
    stated = ("formula", "unit", "better", "source")
    return {
        "covers": covers,
        "exam": _exam(task, plugins),
        "snapshot": {
            **{name: getattr(snapshot.meta, name) for name in ("name", "source", "synthetic")},
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
            "least_read": LEAST_READ,
            "needs": needs_of(questions.recoveries),
        },
        "definitions": {name: {part: getattr(task.scores[name], part) for part in stated} for name in questions.recoveries},
        "score_order": list(questions.recoveries),
        "attackers": [*attackers, *models],
        "identifiability": identifiability,
        "artefacts": {**files, **artefacts},
    }


def _exam(task: ScoringTask, plugins: Plugins) -> Entry:
    """Scoring task that asked, with the hash of all that can change its questions."""
    return {"name": task.name, "version": task.version, "hash": content_hash(describe_any(task, plugins))}


def _check_mask(questions: Questions, stated: Mapping[str, Any]) -> None:
    """Probes' own masks are the one that the task's description states: else a certificate would name another."""
    for question in questions.all:
        shown = to_mapping(question.sample.lens.mask)
        for name in sorted({*shown, *stated}):
            if shown.get(name) != stated.get(name):
                raise ConfigError(
                    f"task {questions.target_task.task.name}: its probes are masked with {name} {shown.get(name)!r}, its config "
                    f"says {stated.get(name)!r}; a config must state its mask"
                )
