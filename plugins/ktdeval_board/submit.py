"""A finished run into a board: everything that is missing said at once, or a whole submission written, or nothing."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ktdeval.api import (
    CardError,
    JsonValue,
    KtdevalError,
    Plugins,
    RunFolder,
    StoreError,
    UsageError,
    dumps_pretty,
    file_sha256,
    load_card,
    near_matches,
    verify_card,
    write_atomic,
)
from ktdeval_board.bundle import Bundle, Source, make_bundle
from ktdeval_board.checking.check import CheckOptions, check_board
from ktdeval_board.claims import Claims, claim_problems, make_submission, said
from ktdeval_board.entries import Board, load_board
from ktdeval_board.layout import CardFiles
from ktdeval_board.placement import Placement
from ktdeval_board.requirements import Candidate, card_problems, nearest_division, no_division
from ktdeval_board.rules import Rules
from ktdeval_board.secrets import Found, Redactor

_RUN = "run"
"""Folder of a bundle in its staging folder."""

Stored = Literal["repository", "elsewhere"]


@dataclass(frozen=True)
class Request:
    """What is submitted, and how.

    Attributes:
        run: the run folder.
        today: day of the submission, YYYY-MM-DD.
        card: name of the task whose card is meant; None for those of all tasks that the board has.
        stored: where the records are kept.
        records_url: where records that are stored elsewhere can be had.
        records_out: folder to write these to, a run folder for each task, so that they can be put there.
        changes: `data` and `data_args` where the market has moved since the run.
        plugins: further plugins, as given with --plugin, for the board's own check.
        is_dry: write nothing.
        is_checked: whether the run is verified and the board's own check made at once; without it, both are left to the next check,
            as for a baseline that was run a moment ago.
    """

    run: Path
    today: str
    card: str | None = None
    stored: Stored = "repository"
    records_url: str = ""
    records_out: Path | None = None
    changes: Mapping[str, Any] = field(default_factory=dict)
    plugins: tuple[str, ...] = ()
    is_dry: bool = False
    is_checked: bool = True


@dataclass(frozen=True)
class Submitted:
    """A card as it was submitted.

    Attributes:
        card_id: SHA-256 of the card.
        division: id of its division.
        model: full name of the model.
        paths: files and folders written, relative to the board.
        episodes: how many it has.
        record_bytes: size of all records.
        redacted: what was replaced in the records.
    """

    card_id: str
    division: str
    model: str
    paths: tuple[str, ...]
    episodes: int
    record_bytes: int
    redacted: tuple[Found, ...]


@dataclass(frozen=True)
class Outcome:
    """What came of it: submitted cards, or what is missing, a line each.

    Attributes:
        submitted: the cards; empty where anything is missing.
        missing: why nothing was written.
        notes: what the submitter should know besides.
    """

    submitted: tuple[Submitted, ...] = ()
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def submit_run(board_path: Path, request: Request, claims: Claims, plugins: Plugins, redactor: Redactor) -> Outcome:
    """Submit the cards of a run to a board.

    Args:
        board_path: the board's repository.
        request: the run.
        claims: what the submitter says.
        plugins: the loaded plugins.
        redactor: what must not be published.

    Raises:
        ConfigError: there is no board, or its rules are not valid.
        CardError: a card of the run or of the board is not valid.
        StoreError: there is no run, its records are not readable, or the board can't be written.
        UsageError: `request` names a card or a folder that is not there, or one that is there already.
    """
    board = load_board(board_path)
    run = RunFolder.load(request.run)
    candidates, missing, notes = _candidates(board.rules, run, request)
    for candidate in candidates:
        missing += _labelled(candidate, _candidate_problems(board, candidate, request, claims, plugins))
    if missing:
        return Outcome(missing=tuple(missing), notes=tuple(notes))
    staging = _make_staging(board_path)
    try:
        return _submit(_Work(board, request, claims, plugins, redactor, staging), candidates, notes)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


# ---- what is missing


def _candidates(rules: Rules, run: RunFolder, request: Request) -> tuple[list[Candidate], list[str], list[str]]:
    """The cards meant, what is missing where there is none, and notes on those passed over."""
    paths = {path.stem: path for path in sorted((run.path / "cards").glob("*.json"))}
    if not paths:
        raise CardError(f"{run.path}: has no cards; `ktdeval score {run.path}` writes those of finished episodes")
    if request.card is not None:
        if request.card not in paths:
            raise UsageError(f"--card: {run.path} has no card of {request.card!r}{near_matches(request.card, paths)}")
        paths = {request.card: paths[request.card]}
    found, missing = [], []
    for path in paths.values():
        card = load_card(path)
        division = nearest_division(rules, card)
        if division is None:
            missing.append(f"{path.name}: {no_division(rules, card['task']['name'])}")
        else:
            found.append(Candidate(run, path, card, division))
    return (found, [], [f"passed over: {line}" for line in missing]) if found else ([], missing, [])


def _labelled(candidate: Candidate, problems: Iterator[str]) -> list[str]:
    return [f"{candidate.path.name}: {problem}" for problem in problems]


def _candidate_problems(board: Board, candidate: Candidate, request: Request, claims: Claims, plugins: Plugins) -> Iterator[str]:
    yield from card_problems(board, candidate)
    yield from claim_problems(board, candidate, claims, request.today)
    yield from _storage_problems(board.rules, candidate, request)
    if not request.is_checked:
        return
    try:
        findings = verify_card(candidate.path, plugins, request.changes).findings
    except KtdevalError as error:
        findings = (str(error),)
    yield from (f"does not verify: {finding}" for finding in findings)


def _changes(candidate: Candidate, request: Request) -> dict[str, Any]:
    """Where the market is: as the submitter says, or as the run was told."""
    return dict(request.changes) if "data" in request.changes else dict(candidate.run.manifest.data)


def _storage_problems(rules: Rules, candidate: Candidate, request: Request) -> Iterator[str]:
    if request.stored == "repository":
        if request.records_url or request.records_out:
            yield "records: --records-url and --records-out are for records that are stored elsewhere; say --records elsewhere"
        return
    if rules.baseline_of(str(candidate.card["model"]["name"])) is not None:
        return  # anyone can make them again
    if not request.records_url:
        yield "records: say with --records-url https://… where they can be had, or store them in the repository"
    if request.records_out is None:
        yield "records: say with --records-out in which folder to write them, without secrets, so that you can put them there"


# ---- what is written


@dataclass(frozen=True)
class _Work:
    """What all cards of one submission share."""

    board: Board
    request: Request
    claims: Claims
    plugins: Plugins
    redactor: Redactor
    staging: Path


@dataclass(frozen=True)
class _Prepared:
    """A submission that only has to be put into its place."""

    candidate: Candidate
    bundle: Bundle
    files: CardFiles
    records: tuple[Mapping[str, JsonValue], ...]


def _make_staging(board_path: Path) -> Path:
    try:
        # Inside the board, so that what is finished can be renamed into its place.
        return Path(tempfile.mkdtemp(prefix=".submission-", dir=board_path))
    except OSError as error:
        raise StoreError(f"{board_path}: can't write here: {error.strerror or error}") from error


def _submit(work: _Work, candidates: Sequence[Candidate], notes: list[str]) -> Outcome:
    prepared, missing = list[_Prepared](), list[str]()
    for candidate in candidates:
        ready = _prepare(work, candidate, work.staging / str(len(prepared)))
        missing += _labelled(candidate, iter(ready.bundle.problems))
        missing += _labelled(candidate, _size_problems(work, ready))
        prepared.append(ready)
    submitted = tuple(_told(work, ready) for ready in prepared)
    if missing or work.request.is_dry:
        return Outcome(() if missing else submitted, tuple(missing), tuple(notes))
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
    if missing:
        placement.undo()
        return Outcome((), tuple(missing), tuple(notes))
    return Outcome(submitted, (), tuple(notes))


def _prepare(work: _Work, candidate: Candidate, folder: Path) -> _Prepared:
    market = work.board.rules.snapshot_of(candidate.division)
    source = Source(candidate.run, candidate.path, candidate.card, _changes(candidate, work.request), market)
    bundle = make_bundle(source, folder / _RUN, work.redactor, work.plugins)
    files = work.board.folder.card_files(candidate.card, file_sha256(bundle.card_path))
    return _Prepared(candidate, bundle, files, tuple(bundle.files()))


def _size_problems(work: _Work, ready: _Prepared) -> Iterator[str]:
    limits = work.board.rules.limits
    if work.request.stored == "elsewhere":
        return
    for record in ready.records:
        if record["bytes"] > limits.bytes_of("file_mb"):
            yield f"size: {record['path']} has {record['bytes']:,} bytes; at most {limits.bytes_of('file_mb'):,} are taken"
    total = sum(record["bytes"] for record in ready.records)
    if total > limits.bytes_of("records_mb"):
        most = f"at most {limits.bytes_of('records_mb'):,} are taken"
        yield f"size: the records have {total:,} bytes; {most} in the repository; store them with --records elsewhere"


def _put(work: _Work, ready: _Prepared, placement: Placement) -> None:
    """Put a submission into its place. The card comes last: without it, what is there is no submission."""
    request, files, card_id = work.request, ready.files, ready.files.card_id
    folder, run = ready.bundle.folder.parent, ready.bundle.folder
    listed = {"schema_version": 1, "card": card_id, "files": list(ready.records), "stored": request.stored}
    submission = make_submission(ready.candidate.card, card_id, work.claims, request.today)
    write_atomic(folder / files.records.name, dumps_pretty({**listed, **said(url=request.records_url)}))
    write_atomic(folder / files.submission.name, dumps_pretty(submission))
    shutil.copyfile(ready.bundle.card_path, folder / files.card.name)
    if request.records_out is not None:
        placement.put(run, request.records_out / ready.candidate.path.stem)
    elif request.stored == "repository":
        shutil.rmtree(run / "cards")
        placement.put(run, work.board.folder.records(card_id))
    for path in (files.records, files.submission, files.card):
        placement.put(folder / path.name, path)


def _told(work: _Work, ready: _Prepared) -> Submitted:
    root, request = work.board.folder.path, work.request
    paths = [ready.files.card, ready.files.submission, ready.files.records]
    if request.stored == "repository":
        paths.append(work.board.folder.records(ready.files.card_id))
    return Submitted(
        ready.files.card_id,
        ready.candidate.division.id,
        str(ready.candidate.card["model"]["name"]),
        tuple(path.relative_to(root).as_posix() for path in paths),
        ready.candidate.card["coverage"]["episodes_planned"],
        sum(record["bytes"] for record in ready.records),
        ready.bundle.redacted,
    )


def _own_findings(work: _Work, prepared: Sequence[_Prepared]) -> tuple[list[str], list[str]]:
    """What the board's own check says of the cards as they lie there now; and, apart from it, of the rest of the board."""
    request, ids = work.request, tuple(ready.files.card_id for ready in prepared)
    options = CheckOptions(today=request.today, record=False, only=ids, data=request.changes.get("data"), plugins=request.plugins)
    findings = check_board(work.board.folder.path, work.plugins, options).findings
    own = [str(finding) for finding in findings if any(card_id in finding.path for card_id in ids)]
    others = len(findings) - len(own)
    return own, [f"the board has {others} findings besides; see `ktdeval leaderboard check`"] if others else []
