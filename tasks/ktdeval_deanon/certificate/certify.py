"""Certify a mask: put a probe set to every attacker there is, and write down what they recovered; and check such a certificate."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from ktdeval.cards import card_difference, load_card, validate_card
from ktdeval.contracts import describe_task
from ktdeval.errors import CardError, ConfigError, StoreError
from ktdeval.fields import to_mapping
from ktdeval.jsonio import JsonValue, content_hash, sha256_hex, write_atomic
from ktdeval.market import MarketSnapshot
from ktdeval.registry import Plugins
from ktdeval.runner import describe_any, describe_environment, open_snapshot
from ktdeval.typed import to_plain
from ktdeval_deanon.certificate.card import KIND, build_certificate, covered_by
from ktdeval_deanon.certificate.mechanical import attack_questions
from ktdeval_deanon.certificate.models import read_attacks
from ktdeval_deanon.certificate.questions import ProbeChoice, Questions, find_scoring_task, open_questions, per_window
from ktdeval_deanon.certificate.types import Certificate

OnProbe = Callable[[int, int], None]
"""Told how many probes are done, of how many."""


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
    runs: tuple[Path, ...] = ()  #: folders of finished runs of the scoring task, each a model that attacked


@dataclass(frozen=True)
class Certified:
    """A certificate, and the probe set that it is about."""

    certificate: Certificate
    files: Mapping[str, str]  #: the probe set: name -> text, what is shown apart from what is true


def certify(config: CertifyConfig, plugins: Plugins, on_probe: OnProbe) -> Certified:
    """Draw the probe set, attack it, and build the certificate.

    Raises KtdevalError: anything in the config that can't work, in one line; a run whose model was asked something else.
    """
    began = time.perf_counter()
    task = find_scoring_task(config.exam, config.task, plugins)
    each = None if config.probes is None else per_window(task, config.windows, config.probes)
    snapshot = open_snapshot(plugins, config.data, config.data_args)
    questions = open_questions(task, plugins, snapshot, ProbeChoice(config.windows, config.seed, each))
    models, artefacts = read_attacks(config.runs, questions)
    parts = _parts(questions, plugins, (models, artefacts), on_probe)
    data = {"data": portable(config.data), "data_args": dict(config.data_args)}
    provenance = {**describe_environment(time.perf_counter() - began), **data}
    certificate = build_certificate({**parts, "provenance": provenance})
    validate_card(certificate.plain, "certificate")
    return Certified(certificate, questions.files)


def verify_certificate(
    path: Path, plugins: Plugins, changes: Mapping[str, Any], runs: Sequence[Path], on_probe: OnProbe
) -> str | None:
    """Draw a certificate's probe set again, attack it again, and compare.

    Returns the first line that differs; None when all is as recorded. Raises CardError: it is not a valid certificate; StoreError:
    another version of the tasks is installed, or a run is not one of those that attacked; DataError: the snapshot is not there, or
    another one.
    """
    recorded = cast(Certificate, load_card(path, KIND))
    exam, probes = recorded.exam, recorded.probes
    task = find_scoring_task(exam.name, recorded.covers.task_name, plugins)
    described = describe_any(task, plugins)
    if content_hash(described) != exam.hash:
        raise StoreError(
            f"{path}: {task.name} asked as version {exam.version} ({exam.hash[:12]}), the installed one is {task.version} "
            f"({content_hash(described)[:12]}); install the version that asked"
        )
    snapshot = _same_snapshot(path, recorded, plugins, changes)
    # A range of days is a window's name, so names bring all of them back.
    choice = ProbeChoice(tuple(window.name for window in probes.windows), probes.seed, probes.limit)
    questions = open_questions(task, plugins, snapshot, choice)
    if runs:
        attacks = read_attacks(runs, questions)
    else:
        models = [to_plain(attacker) for attacker in recorded.models]
        kept = {name: digest for name, digest in recorded.artefacts.items() if name not in questions.files}
        attacks = (models, kept)
    again = build_certificate({**_parts(questions, plugins, attacks, on_probe), "provenance": to_plain(recorded.provenance)})
    return card_difference(recorded.plain, again.plain, path.read_text(encoding="utf-8"))


def write_probes(folder: Path, files: Mapping[str, str]) -> list[Path]:
    """Write a probe set down, what is shown apart from what is true; returns the paths.

    Raises StoreError: the folder can't be made or written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"{folder}: can't make the folder: {error.strerror or error}; choose another --save-probes") from error
    paths = [folder / name for name in files]
    for path in paths:
        write_atomic(path, files[path.name])
    return paths


def portable(data: str) -> str:
    """A data folder as an absolute path, so that a certificate can be verified from anywhere on this machine."""
    path = Path(data).expanduser()
    return str(path.resolve()) if (path / "manifest.json").is_file() else data


def _parts(
    questions: Questions, plugins: Plugins, attacks: tuple[list[dict[str, JsonValue]], dict[str, str]], on_probe: OnProbe
) -> dict[str, JsonValue]:
    """Everything of a certificate that is not of this moment."""
    models, artefacts = attacks
    task, target_task, snapshot = questions.task, questions.target_task, questions.snapshot
    covers = covered_by(describe_task(target_task.task, target_task.tools), snapshot.id)
    _check_mask(questions, covers)
    found = attack_questions(questions, lambda done: on_probe(done, len(questions.all)))
    files = {name: sha256_hex(text) for name, text in questions.files.items()}
    return {
        "covers": covers,
        "exam": {"name": task.name, "version": task.version, "hash": content_hash(describe_any(task, plugins))},
        "snapshot": _snapshot_entry(snapshot),
        "probes": questions.describe(),
        "definitions": {name: _definition(task.scores[name]) for name in questions.recoveries},
        "score_order": list(questions.recoveries),
        "attackers": [*found.attackers, *models],
        "identifiability": found.identifiability,
        "artefacts": {**files, **artefacts},
    }


def _definition(definition: Any) -> dict[str, JsonValue]:
    return {name: getattr(definition, name) for name in ("formula", "unit", "better", "source")}


def _check_mask(questions: Questions, covers: Mapping[str, Any]) -> None:
    """Probes' own masks are the one that the task's description states: else a certificate would name another."""
    for question in questions.all:
        shown = to_mapping(question.sample.lens.mask)
        if shown != covers["mask"]:
            differing = next(name for name in sorted({*shown, *covers["mask"]}) if shown.get(name) != covers["mask"].get(name))
            name = questions.target_task.task.name
            raise ConfigError(
                f"task {name}: its probes are masked with {differing} {shown.get(differing)!r}, its config "
                f"says {covers['mask'].get(differing)!r}; a config must state its mask"
            )


def _same_snapshot(path: Path, recorded: Certificate, plugins: Plugins, changes: Mapping[str, Any]) -> MarketSnapshot:
    where: dict[str, Any] = {"data": recorded.provenance.data, "data_args": recorded.provenance.data_args}
    if "data" in changes:
        where = {"data": changes["data"], "data_args": changes.get("data_args", {})}
    snapshot = open_snapshot(plugins, where["data"], where["data_args"])
    if snapshot.id != recorded.snapshot.id:
        raise CardError(
            f"{path}: is of snapshot {recorded.snapshot.id[:12]}, {where['data']} is {snapshot.id[:12]}; name the right one"
            " with --data"
        )
    return snapshot


def _snapshot_entry(snapshot: MarketSnapshot) -> dict[str, JsonValue]:
    meta = snapshot.meta
    return {
        "id": snapshot.id,
        "name": meta.name,
        "source": meta.source,
        "synthetic": meta.synthetic,
        "assets": len(snapshot.codes),
        "first_day": str(snapshot.days[0]),
        "last_day": str(snapshot.days[-1]),
    }
