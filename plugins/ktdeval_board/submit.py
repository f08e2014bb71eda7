"""A finished run into a board: everything that is missing reported at once, or a whole submission written, or nothing."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from ktdeval.cards import card_files, count, load_evaluation
from ktdeval.errors import KtdevalError, StoreError, UsageError
from ktdeval.fields import near_matches
from ktdeval.jsonio import dumps_pretty, file_sha256, write_atomic
from ktdeval.registry import Plugins
from ktdeval.runner import RunFolder, verify_card
from ktdeval.typed import Value, to_plain
from ktdeval_board.bundle import Bundle, Leak, Redactor, Source, make_bundle
from ktdeval_board.checking.cards import CardInputs, size_problems
from ktdeval_board.checking.check import CheckOptions, check_board
from ktdeval_board.checking.rules import Stage, findings_of
from ktdeval_board.claims import Claims, attempt_problems, claim_problems, make_submission
from ktdeval_board.documents import RecordFile, Records
from ktdeval_board.entries import (
    Board,
    Card,
    identity,
    identity_words,
    is_certified,
    load_board,
    names_of,
    nearest_division,
)
from ktdeval_board.layout import CardFiles
from ktdeval_board.placement import Placement
from ktdeval_board.rules import Division, Rules

_RUN = "run"  #: Folder of a bundle in its staging folder

Stored = Literal["repository", "elsewhere"]


@dataclass(frozen=True)
class Request:
    """Request to submit a run."""

    run: Path
    today: str  #: day of the submission, YYYY-MM-DD
    card: str | None = None  #: name of the task whose card is meant; None for those of all tasks that the board has
    stored: Stored = "repository"  #: where the records are kept
    records_url: str = ""  #: where records that are stored elsewhere can be had
    records_out: Path | None = None  #: folder to write these to, a run folder for each task, so that they can be put there
    changes: Mapping[str, Any] = field(default_factory=dict)  #: `data` and `data_args` where the market has moved since the run
    plugins: tuple[str, ...] = ()  #: further plugins, as given with --plugin, for the board's own check
    is_dry: bool = False
    #: whether the run is verified and the board's own check made at once; without it, both are left to the next check, as for a
    #: baseline that was run a moment ago.
    is_checked: bool = True


class Submitted(Value, frozen=True, kw_only=True):
    """A card as it was submitted."""

    card_id: str = msgspec.field(name="card")
    division: str
    model: str
    paths: tuple[str, ...]
    episodes: int
    record_bytes: int
    redacted: tuple[Leak, ...]


class Outcome(Value, frozen=True, kw_only=False):
    """Outcome of a submission: cards, or what is missing, a line each; and what the submitter should know besides."""

    submitted: tuple[Submitted, ...] = ()
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def submit_run(board_path: Path, request: Request, claims: Claims, plugins: Plugins, redactor: Redactor) -> Outcome:
    """Submit the cards of a run to a board.

    Raises ConfigError: there is no board, or its rules are not valid; CardError: a card of the run or of the board is not valid;
    StoreError: there is no run, its records are not readable, or the board can't be written; UsageError: `request` names a card or
    a folder that is not there, or one that is there already.
    """
    board = load_board(board_path)
    candidates, missing, notes = _candidates(board.rules, request)
    for each in candidates:
        notes += _key_notes(board.rules, each)
        missing += [f"{each.path.name}: {problem}" for problem in _candidate_problems(board, each, request, claims, plugins)]
    if missing:
        return Outcome(missing=tuple(missing), notes=tuple(notes))
    try:
        # Inside the board, so that what is finished can be renamed to its path.
        staging = Path(tempfile.mkdtemp(prefix=".submission-", dir=board_path))
    except OSError as error:
        raise StoreError(f"{board_path}: can't write here: {error.strerror or error}") from error
    try:
        return _submit(_Work(board, request, claims, plugins, redactor, staging), candidates, notes)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


# ---- what is missing


class _Candidate(NamedTuple):
    """A card that is to be submitted: its file in the run, its content, and the division that it is nearest to."""

    path: Path
    card: Card
    division: Division


def _candidates(rules: Rules, request: Request) -> tuple[list[_Candidate], list[str], list[str]]:
    """Return the cards meant, what is missing where there is none, and notes on those passed over."""
    run = RunFolder.load(request.run)
    paths = {path.stem: path for path in card_files([run.path])}
    if request.card is not None:
        if request.card not in paths:
            raise UsageError(f"--card: {run.path} has no card of {request.card!r}{near_matches(request.card, paths)}")
        paths = {request.card: paths[request.card]}
    candidates, missing = [], []
    tasks = sorted({division.task for division in rules.divisions})
    for path in paths.values():
        card = load_evaluation(path)
        division, task = nearest_division(rules, card), card.task.name
        if division is None or division.task != task:
            has = f"it has {', '.join(tasks)}"
            missing.append(f"{path.name}: task: the board has no division of {task}{near_matches(task, tasks)} ({has})")
        else:
            candidates.append(_Candidate(path, card, division))
    return (candidates, [], [f"passed over: {line}" for line in missing]) if candidates else ([], missing, [])


def _key_notes(rules: Rules, candidate: _Candidate) -> Iterator[str]:
    """Say that a card is taken and will have no rank, because its key is not one that the board drew."""
    path, card, division = candidate
    if division.is_governed and not card.registration and rules.baseline_of(card.model.name) is None:
        unranked = f"the board draws the mask keys of division {division.id}, so that this card will have no rank"
        yield f"{path.name}: own key: {unranked}; `ktdeval leaderboard register` comes before a run that is ranked"


def _candidate_problems(board: Board, candidate: _Candidate, request: Request, claims: Claims, plugins: Plugins) -> Iterator[str]:
    """Yield what the check would say of the card, and what else is missing."""
    path, card, division = candidate
    size, most, system = path.stat().st_size, board.rules.limits.bytes_of("card_mb"), identity(card, division)
    if size > most:
        yield f"size: the card has {size:,} bytes; at most {most:,} are taken"
    facts = (board.rules, card, is_certified(board.folder, card), board.registrations)
    refusals = findings_of(Stage.CARD, CardInputs(path.name, *facts))
    yield from (f"{finding.rule}: {finding.message}" for finding in refusals)
    for entry in board.entries:
        if entry.division is not None and not entry.is_withdrawn and identity(entry.card, entry.division) == system:
            there = f"has a card in division {division.id} ({board.folder.relative(entry.files.card)})"
            yield f"duplicate: {identity_words(card)} {there}; a system has one, unless errata.yaml withdraws it"
    yield from claim_problems(board, card, claims, request.today)
    yield from attempt_problems(board, division, RunFolder.load(request.run), card, claims)
    yield from _storage_problems(board.rules, card, request)
    if request.is_checked:
        manifest = RunFolder.load(request.run).manifest
        if manifest.request_settings is not None and manifest.call_log is None:
            yield "records: the run does not say with which record of calls (calls.sqlite) it was begun; submit the run itself"
        try:
            findings = verify_card(path, plugins, request.changes).findings
        except KtdevalError as error:
            findings = (str(error),)
        yield from (f"does not verify: {finding}" for finding in findings)


def _storage_problems(rules: Rules, card: Card, request: Request) -> Iterator[str]:
    if request.stored == "repository":
        if request.records_url or request.records_out:
            yield "records: --records-url and --records-out are for records that are stored elsewhere; say --records elsewhere"
        return
    if rules.baseline_of(card.model.name) is not None:
        return  # anyone can make them again
    if not request.records_url:
        yield "records: say with --records-url https://… where they can be had, or store them in the repository"
    if request.records_out is None:
        yield "records: say with --records-out in which folder to write them, without secrets, so that you can put them there"


# ---- what is written


@dataclass(frozen=True)
class _Work:
    """Things that all cards of one submission share."""

    board: Board
    request: Request
    claims: Claims
    plugins: Plugins
    redactor: Redactor
    staging: Path


@dataclass(frozen=True)
class _Prepared:
    """A submission that only has to be moved into the board."""

    candidate: _Candidate
    bundle: Bundle
    files: CardFiles
    records: tuple[RecordFile, ...]


def _submit(work: _Work, candidates: Sequence[_Candidate], notes: list[str]) -> Outcome:
    prepared, missing = list[_Prepared](), list[str]()
    for candidate in candidates:
        ready = _prepare(work, candidate, work.staging / str(len(prepared)))
        problems = [*ready.bundle.problems]
        if work.request.stored == "repository":
            problems += [f"size: {problem}" for problem in size_problems(work.board.rules, ready.records)]
        missing += [f"{candidate.path.name}: {problem}" for problem in problems]
        prepared.append(ready)
    submitted = tuple(_submitted(work, ready) for ready in prepared)
    if missing:
        return Outcome((), tuple(missing), tuple(notes))
    placement = Placement()
    try:
        for ready in prepared:
            _put(work, ready, placement)
        shutil.rmtree(work.staging)
        if work.request.is_checked:
            missing, others = _own_findings(work, prepared)
            notes = [*notes, *others]
    except BaseException:
        placement.undo()
        raise
    if missing or work.request.is_dry:  # a dry run is the same, taken back at its end
        placement.undo()
    return Outcome(() if missing else submitted, tuple(missing), tuple(notes))


def _prepare(work: _Work, candidate: _Candidate, folder: Path) -> _Prepared:
    path, card, division = candidate
    run, changes = RunFolder.load(work.request.run), work.request.changes
    # Where the market is: as the submitter says, or as the run recorded it.
    where = dict(changes) if "data" in changes else dict(run.manifest.data or {})
    source = Source(run, path, card, where, work.board.rules.snapshot_of(division))
    bundle = make_bundle(source, folder / _RUN, work.redactor, work.plugins)
    files = work.board.folder.card_files(*names_of(card), file_sha256(bundle.card_path))
    return _Prepared(candidate, bundle, files, tuple(bundle.files()))


def _put(work: _Work, ready: _Prepared, placement: Placement) -> None:
    """Move a submission into the board. The card comes last: without it, what is there is no submission."""
    request, files, card_id = work.request, ready.files, ready.files.card_id
    folder, run = ready.bundle.folder.parent, ready.bundle.folder
    records = Records(schema_version=1, card=card_id, files=ready.records, stored=request.stored, url=request.records_url)
    submission = make_submission(ready.candidate.card, card_id, work.claims, request.today)
    write_atomic(folder / files.records.name, dumps_pretty(to_plain(records)))
    write_atomic(folder / files.submission.name, dumps_pretty(to_plain(submission)))
    shutil.copyfile(ready.bundle.card_path, folder / files.card.name)
    if request.records_out is not None:
        placement.put(run, request.records_out / ready.candidate.path.stem)
    elif request.stored == "repository":
        shutil.rmtree(run / "cards")
        placement.put(run, work.board.folder.records(card_id))
    for path in (files.records, files.submission, files.card):
        placement.put(folder / path.name, path)


def _submitted(work: _Work, ready: _Prepared) -> Submitted:
    request, relative = work.request, work.board.folder.relative
    paths = [ready.files.card, ready.files.submission, ready.files.records]
    if request.stored == "repository":
        paths.append(work.board.folder.records(ready.files.card_id))
    return Submitted(
        card_id=ready.files.card_id,
        division=ready.candidate.division.id,
        model=ready.candidate.card.model.name,
        paths=tuple(map(relative, paths)),
        episodes=ready.candidate.card.coverage.episodes_planned,
        record_bytes=sum(record.bytes for record in ready.records),
        redacted=ready.bundle.redacted,
    )


def _own_findings(work: _Work, prepared: Sequence[_Prepared]) -> tuple[list[str], list[str]]:
    """Return what the board's own check says of the cards as they lie there now; and, separately, of the rest of the board."""
    request, ids = work.request, tuple(ready.files.card_id for ready in prepared)
    options = CheckOptions(today=request.today, record=False, only=ids, data=request.changes.get("data"), plugins=request.plugins)
    findings = check_board(work.board.folder.path, work.plugins, options).findings
    own = [str(finding) for finding in findings if any(card_id in finding.path for card_id in ids)]
    others = len(findings) - len(own)
    return own, [f"the board has {count(others, 'finding')} besides; see `ktdeval leaderboard check`"] if others else []
