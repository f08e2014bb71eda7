"""Register a system with a board, as a submitter does, and draw keys for registrations, as only the
board does.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from ktdeval.cards import SIGNED_REGISTRATION, PrivateKey, count, sign_file, signature_path
from ktdeval.errors import ConfigError, StoreError, UsageError, wrap_os_error
from ktdeval.registry import Plugins
from ktdeval.runner import (
    DrawnKey,
    Question,
    RegisteredTask,
    RegisteredWindow,
    Registrant,
    Registration,
    RunConfig,
    load_config,
)
from ktdeval.values import (
    Finding,
    dumps_pretty,
    from_plain,
    temporary_folder,
    to_plain,
    write_atomic,
)
from ktdeval_board.baselines import baseline_args
from ktdeval_board.board_entries import load_board, seeds_of
from ktdeval_board.checking.content import registrations_of
from ktdeval_board.errata import ERRATA_FILE
from ktdeval_board.layout import KEYS, REGISTRATIONS, BoardFolder
from ktdeval_board.redacted_records import Redactor
from ktdeval_board.registrations import FiledRegistration, Registrations
from ktdeval_board.rules import Baseline, Division, Rules, load_rules
from ktdeval_board.signed import keys_of
from ktdeval_board.system_fit import check_fits, misfit_of
from ktdeval_board.system_registration import registered_system

_KEY_BYTES = 16


@dataclass(frozen=True)
class RegistrationResult:
    """The registration that was written, or the reasons why a board refuses it, one line each."""

    filed: FiledRegistration | None = None
    problems: tuple[str, ...] = ()
    unchecked: str | None = None  #: why it was not checked whether the task takes the system


@dataclass(frozen=True)
class RegisterRequest:
    """Request to register a system."""

    division: str  #: id of the division to register with
    #: run options keyed by `RunConfig` field name: model, agent, their parameters, call parameters
    options: Mapping[str, Any]
    submitter: Registrant
    today: str  #: day of the registration, YYYY-MM-DD
    key: PrivateKey | None = None  #: key that signs the registration; None to leave it unsigned
    #: question that the run is to answer, as written by a user; None for no question
    question: Mapping[str, Any] | None = None


def register(
    folder: Path, request: RegisterRequest, plugins: Plugins, redactor: Redactor
) -> RegistrationResult:
    """Write the registration of a system with a division of a board.

    Raises ConfigError if the board, division or model does not exist. Raises UsageError if an
    option leaves open what a registration must fix, or if the board does not draw keys for the
    division. Raises StoreError if the registration can't be written. Raises the error of a run if
    the division's task does not take the system.
    """
    rules = load_rules(folder)
    division = rules.division(request.division)
    if not division.is_governed:
        raise UsageError(
            f"--division {request.division}: submitters use their own keys; run and submit "
            "without a registration"
        )
    registration = make_registration(rules, request, plugins)
    unchecked = check_fits(rules, division, run_config(division, request.options), plugins)
    if request.question is not None:
        question = make_question(request.question, division, folder, plugins)
        registration = msgspec.structs.replace(registration, question=question)

    result = file_registration(folder, rules, registration, redactor, request.key)
    return replace(result, unchecked=unchecked)


def make_registration(rules: Rules, request: RegisterRequest, plugins: Plugins) -> Registration:
    """Make the registration of a system with a division. Raises the same errors as `register`."""
    division = rules.division(request.division)
    snapshot = rules.snapshot_of(division)
    if snapshot is None:
        raise ConfigError(f"division {division.id}: has no market, so no mask key is drawn for it")

    config = run_config(division, request.options)
    system = registered_system(config, plugins)
    return Registration(
        board=rules.name,
        division=division.id,
        task=RegisteredTask(name=division.task, version=division.version, hash=division.hash),
        snapshot=snapshot.id,
        windows=tuple(
            RegisteredWindow(name=each.name, first=each.first, last=each.last)
            for each in division.windows
        ),
        seeds=seeds_of(rules, division, system.model, system.model_args),
        rules=division.rules,
        system=system,
        submitter=request.submitter,
        registered_on=request.today,
    )


def make_question(
    stated: Mapping[str, Any], division: Division, folder: Path, plugins: Plugins
) -> Question:
    """Return a question from its fields as written by a user.

    `windows` defaults to the division's windows, and `looks` to a single look at all of them.
    `against` may be the model of a card in the division. Raises ConfigError if a field is unknown,
    has the wrong type or contradicts the others. Raises UsageError if the metric does not exist, or
    if `against` names a model with no card or with several cards.
    """
    values: dict[str, Any] = {"windows": division.window_names(), **stated}
    values.setdefault("looks", [len(values["windows"])])
    against = values.get("against", "benchmark")
    if isinstance(against, str) and against not in ("zero", "benchmark"):
        values["against"] = _card_of(against, division, folder)

    question = from_plain(values, Question, "question", ConfigError)
    plugins.make_metric(question.metric)  # raises an error if the metric is unknown
    return question


def _card_of(name: str, division: Division, folder: Path) -> str:
    """Return the id of the card that a question names by id or by model."""
    cards = load_board(folder).of_division(division)
    found = [entry.card_id for entry in cards if name in (entry.card_id, entry.model)]
    if len(found) != 1:
        raise UsageError(
            f"question: against {name!r}: {count(len(found), 'card')} of division {division.id};"
            " name zero, benchmark, or the id of one card"
        )

    return found[0]


def run_config(division: Division, options: Mapping[str, Any]) -> RunConfig:
    """Return the config for a run on a division with the given system options."""
    values = {name: value for name, value in options.items() if value is not None}
    values["tasks"] = (division.task,)
    values["windows"] = tuple(division.window_names())

    return load_config(None, values)


def file_registration(
    folder: Path,
    rules: Rules,
    registration: Registration,
    redactor: Redactor,
    key: PrivateKey | None = None,
) -> RegistrationResult:
    """Write a registration, unless the board's check would refuse it. It is signed if a key is
    given.
    """
    board = BoardFolder(folder)
    path = board.registration(registration.id)
    where = board.relative(path)
    problems = [
        f"secret: the registration contains {leak.kind}; remove it"
        for leak in redactor.find(to_plain(registration), where)
    ]
    if key is not None and not keys_of(registration.submitter, rules):
        problems.append(
            "signature: the board has no key of this submitter to verify it; ask its maintainers"
            f" to add it to submitter_keys in board.yaml: {key.public.raw.hex()}"
        )
        key = None

    if os.path.lexists(path):
        problems.append(f"{where}: already exists; equal content is the same registration")
        return RegistrationResult(problems=tuple(problems))

    with temporary_folder("ktdeval-register-") as private:
        staged = _copy_of_registrations(folder, private / "board")
        copied = staged.registration(registration.id)
        _write_document(copied, registration)
        if key is not None:
            sign_file(copied, SIGNED_REGISTRATION, key)

        found, there = registrations_of(staged.path, rules, registration.registered_on)
        problems += [each.message for each in found if registration.id in each.path]
        if problems:
            return RegistrationResult(problems=tuple(problems))

        for each in (copied, signature_path(copied)):
            if each.is_file():
                _put(board.path / staged.relative(each), each.read_bytes())

    return RegistrationResult(there.by_id[registration.id])


def _copy_of_registrations(folder: Path, target: Path) -> BoardFolder:
    """Copy the files that the check needs in order to check a board's registrations."""
    with wrap_os_error(f"{folder}: can't be copied for the check"):
        target.mkdir()
        for name in (REGISTRATIONS, KEYS):
            if (folder / name).is_dir():
                shutil.copytree(folder / name, target / name, symlinks=True)

        if (folder / ERRATA_FILE).is_file():
            shutil.copyfile(folder / ERRATA_FILE, target / ERRATA_FILE)

    return BoardFolder(target)


# ---- keys


@dataclass(frozen=True)
class KeyDraw:
    """Keys that were drawn, and registrations for which no key was drawn."""

    drawn: tuple[FiledRegistration, ...] = ()
    findings: tuple[Finding, ...] = field(default=())


def draw_keys(folder: Path, today: str, plugins: Plugins | None = None) -> KeyDraw:
    """Draw a key for each open valid registration, using this machine's source of randomness. A key
    is never redrawn.

    A registration that maintainers excused before its key was drawn gets no key. Neither does one
    whose system the division's task refuses, as far as `plugins` can tell; None: not checked.

    Raises ConfigError if there is no board, and StoreError if a key can't be written or an existing
    key is invalid.
    """
    rules = load_rules(folder)
    findings, registrations = registrations_of(folder, rules, today)
    waiting = [each for each in registrations.filed if each.drawn is None and each.excuse is None]
    drawn = []
    for each in waiting:
        misfit = None if plugins is None else misfit_of(rules, each.registration, plugins)
        if misfit is None:
            drawn.append(_draw(BoardFolder(folder), each, today))
            continue

        findings.append(
            Finding(
                path=each.where,
                rule="registration",
                message=f"got no key, because the division's task refuses its system: {misfit}",
                fix="excuse it in errata.yaml, and register a system that the task takes",
            )
        )

    return KeyDraw(tuple(drawn), tuple(findings))


def _draw(board: BoardFolder, filed: FiledRegistration, today: str) -> FiledRegistration:
    path = board.key(filed.id)
    if path.exists() or path.is_symlink():
        raise StoreError(f"{path}: exists but is invalid; see `ktdeval leaderboard check`")

    key = DrawnKey(
        id=filed.id,
        registration=filed.registration,
        mask_key=secrets.token_hex(_KEY_BYTES),
        drawn_on=today,
        signed_by=filed.signed_by or None,
    )
    _write_document(path, key)
    return replace(filed, drawn=key)


def _write_document(path: Path, document: msgspec.Struct) -> None:
    _put(path, dumps_pretty(to_plain(document)).encode())


def _put(path: Path, data: bytes) -> None:
    with wrap_os_error(f"{path}: can't write"):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, data)


# ---- baselines


def baseline_key(
    folder: Path, rules: Rules, baseline: Baseline, request: RegisterRequest, plugins: Plugins
) -> Path:
    """Register a baseline in the board's name, draw its key, and return the key's file.

    A system has only one key in a division, which is reused if the baseline's run is missing or its
    card was withdrawn. `rules` must contain the market's path on this machine. Raises ConfigError
    if the board does not accept the registration, and otherwise the same errors as
    `make_registration` and `draw_keys`.
    """
    division = rules.division(request.division)
    board = BoardFolder(folder)
    options = {
        "model": baseline.model,
        "model_args": baseline_args(rules, division, baseline, plugins),
    }
    registration = make_registration(rules, replace(request, options=options), plugins)
    _, there = registrations_of(folder, rules, request.today)

    for each in _of_baseline(there, registration):
        if each.excuse is None:
            return board.key(each.id)

    registered = file_registration(folder, rules, registration, Redactor({}))
    if registered.filed is None:
        raise ConfigError(
            f"baseline {baseline.words} of division {division.id}: can't be registered:"
            f" {registered.problems[0]}"
        )

    _draw(board, registered.filed, request.today)
    return board.key(registration.id)


def _of_baseline(there: Registrations, registration: Registration) -> Iterator[FiledRegistration]:
    """Yield the registrations for the same plan and system that have a key, whoever registered
    them.
    """
    wanted = _without_submitter(registration)
    for each in there.filed:
        if each.drawn is not None and _without_submitter(each.registration) == wanted:
            yield each


def _without_submitter(registration: Registration) -> Registration:
    nobody = Registrant(name="x", contact="x")
    return msgspec.structs.replace(registration, registered_on="", submitter=nobody)
