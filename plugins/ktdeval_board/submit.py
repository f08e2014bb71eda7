"""Submission of a finished run to a board. The submission is staged on a copy of the board, checked
there like the board itself, and moved to the board if nothing is refused.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from ktdeval.cards import (
    PrivateKey,
    card_files,
    could_know_reasons,
    count,
    knowledge_of,
    load_evaluation,
)
from ktdeval.errors import ConfigError, KtdevalError, StoreError, UsageError
from ktdeval.registry import Plugins
from ktdeval.runner import Registrant, RunFolder, check_call_log, verify_card
from ktdeval.values import Finding, Value, near_matches
from ktdeval_board.board_entries import nearest_division
from ktdeval_board.checking.check import CheckOptions, CheckReport, check_board
from ktdeval_board.document_types import Stored
from ktdeval_board.layout import BoardFolder
from ktdeval_board.redacted_records import Bundle, Leak, Redactor
from ktdeval_board.rules import OPEN_BOOK, Rules, load_rules
from ktdeval_board.signed import keys_of, signature_of
from ktdeval_board.staging import ChosenCard, RecordsStorage, StagedBoard, StagedCard, staged_board
from ktdeval_board.submitter_claims import (
    Claims,
    attempt_problems,
    missing_claims,
    submission_document,
    with_stand_ins,
)


@dataclass(frozen=True)
class SubmitRequest:
    """Request to submit a run."""

    run: Path
    today: str  #: day of the submission, YYYY-MM-DD
    #: name of the task whose card is submitted; None for all cards of tasks on the board
    card: str | None = None
    stored: Stored = "repository"
    records_url: str = ""  #: address of records that are stored elsewhere
    #: folder to which records stored elsewhere are written for uploading, with a run folder for
    #: each task
    records_out: Path | None = None
    #: new `data` and `data_args`, if the market has moved since the run
    changes: Mapping[str, Any] = field(default_factory=dict)
    #: additional plugins for the board's check, as given with --plugin
    plugins: tuple[str, ...] = ()
    is_dry: bool = False
    #: the submitter's key, which signs the card in its submitted form; if None, an existing
    #: signature next to the run's card is reused, provided that the board has a key to verify it
    key: PrivateKey | None = None
    #: whether the records are executed now, rather than at the next check, as for a baseline that
    #: has just been run
    is_executed: bool = True

    @property
    def storage(self) -> RecordsStorage:
        """Storage for the records."""
        return RecordsStorage(self.stored, self.records_url, self.records_out)


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
    """Outcome of a submission: the submitted cards, or what is missing, one line each. Also
    contains notes for the submitter.
    """

    submitted: tuple[Submitted, ...] = ()
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def submit_run(
    board_path: Path, request: SubmitRequest, claims: Claims, plugins: Plugins, redactor: Redactor
) -> Outcome:
    """Submit the cards of a run to a board.

    Raises ConfigError if there is no board or its rules are invalid, CardError if a card of the run
    is invalid, and StoreError if there is no run, its records can't be read, or the board can't be
    written. Raises DataError if the market in `changes` is not one of the board's markets. Raises
    UsageError if `request` specifies a card or folder that does not exist, or an output folder that
    already exists.
    """
    rules = load_rules(board_path)
    run = RunFolder.load(request.run)
    chosen, passed_over = _choose_cards(rules, run, request.card)
    if not chosen:
        return Outcome(missing=tuple(passed_over))

    notes = [f"passed over: {line}" for line in passed_over]
    for card in chosen:
        notes += _key_notes(rules, card)
        notes += _open_book_notes(card)

    with staged_board(BoardFolder(board_path), rules) as board:
        work = _SubmissionDraft(run, rules, board, request, claims, plugins, redactor)
        staged = list(work.stage(chosen))
        work.check(staged)
        if not work.missing and not request.is_dry:
            board.place(request.storage)

    submitted = [_describe(board, card, request.storage) for card in staged]
    if work.missing:
        submitted = []

    # a single problem may violate a rule in two stages of the check
    missing = tuple(dict.fromkeys(work.missing))
    return Outcome(tuple(submitted), missing, tuple(notes + work.notes))


# ---- cards in the run


def _choose_cards(
    rules: Rules, run: RunFolder, task: str | None
) -> tuple[list[ChosenCard], list[str]]:
    """Return the cards of a run for which the board has a division, and one line for each skipped
    card. If `task` is given, only its card is chosen.
    """
    paths = {path.stem: path for path in card_files([run.path])}
    if task is not None:
        if task not in paths:
            raise UsageError(
                f"--card: {run.path} has no card of {task!r}{near_matches(task, paths)}"
            )

        paths = {task: paths[task]}

    chosen = []
    passed_over = []
    tasks = sorted({division.task for division in rules.divisions})

    for path in paths.values():
        card = load_evaluation(path)
        name = card.task.name
        division = nearest_division(rules, card)

        if division is not None and division.task == name:
            chosen.append(ChosenCard(path, card, division))
        else:
            passed_over.append(
                f"{path.name}: task: the board has no division for "
                f"{name}{near_matches(name, tasks)} (it has {', '.join(tasks)})"
            )

    return chosen, passed_over


def _key_notes(rules: Rules, chosen: ChosenCard) -> Iterator[str]:
    """Yield a note if a card will be accepted but not ranked because the board did not draw its
    key.
    """
    division = chosen.division
    model = chosen.card.model
    is_baseline = rules.baseline_of(model.name, model.args) is not None
    if division.is_governed and not chosen.card.registration and not is_baseline:
        yield (
            f"{chosen.path.name}: own key: the board draws the mask keys of division "
            f"{division.id}, so this card will not be ranked; to be ranked, run `ktdeval "
            "leaderboard register` before the run"
        )


def _open_book_notes(chosen: ChosenCard) -> Iterator[str]:
    """Yield a note if a card will be ranked in a division open book."""
    card = chosen.card
    if not could_know_reasons(card):
        return

    ways = " and ".join(knowledge_of(card.deciders, card.episodes))
    yield (
        f"{chosen.path.name}: who decided {ways}, so the board ranks this card in division "
        f"{chosen.division.id}{OPEN_BOOK}, unless it had registered all that a sandboxed program"
        " consists of before the first window"
    )


# ---- staging and checking


@dataclass
class _SubmissionDraft:
    """A submission in preparation: its inputs, and the findings so far."""

    run: RunFolder
    rules: Rules
    board: StagedBoard
    request: SubmitRequest
    claims: Claims
    plugins: Plugins
    redactor: Redactor
    missing: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def stage(self, cards: Iterable[ChosenCard]) -> Iterator[StagedCard]:
        """Add cards with their records to the copy of the board, and note problems that a check of
        the copy can't find.
        """
        request = self.request
        claims = with_stand_ins(self.claims)
        for chosen in cards:
            bundle = self.board.bundle(
                chosen, self.run, request.changes, self.redactor, self.plugins
            )
            self._note(chosen, self._problems(chosen))
            self._note(chosen, bundle.problems)
            there = self.board.files_of(chosen, bundle).card
            if there.exists():
                where = self.board.folder.relative(there)
                self._note(chosen, [f"duplicate: the same card is already on the board: {where}"])
                continue

            submission = submission_document(chosen.card, bundle.card_id, claims, request.today)
            signature = self._signature(chosen, bundle)
            yield self.board.add(chosen, bundle, submission, request.storage, signature)

    def _signature(self, chosen: ChosenCard, bundle: Bundle) -> bytes | None:
        """Return the signature of a card in its submitted form, or None. If a required signature is
        missing, note why.
        """
        who = Registrant(name=self.claims.submitter, contact=self.claims.contact)
        has_key = bool(keys_of(who, self.rules))
        made = signature_of(chosen.path, bundle.card_path, has_key, self.request.key)
        self._note(chosen, made.problems)
        self.notes += [f"{chosen.path.name}: {note}" for note in made.notes]
        return made.data

    def _problems(self, chosen: ChosenCard) -> Iterator[str]:
        """Yield what is missing from the claims and from the run."""
        yield from missing_claims(self.claims)
        yield from attempt_problems(self.run, chosen.card, chosen.division, self.claims.attempts)
        model = chosen.card.model
        # only a baseline can be reproduced without records
        if self.rules.baseline_of(model.name, model.args) is None:
            yield from _storage_problems(self.request.storage)

        yield from _call_problems(self.run, self.plugins)

    def check(self, staged: Sequence[StagedCard]) -> None:
        """Check the copy of the board as `ktdeval leaderboard check` does, and note the findings.

        Records are executed only if nothing has been found missing so far.
        """
        request = self.request
        ids = tuple(card.card_id for card in staged)
        options = CheckOptions(
            today=request.today,
            record=False,
            execute=request.is_executed and not self.missing,
            only=ids,
            submitted=ids,
            data=request.changes.get("data"),
            plugins=request.plugins,
        )
        try:
            report = check_board(self.board.folder.path, self.plugins, options)
        except (ConfigError, StoreError) as error:
            raise type(error)(self.board.named_as_board(str(error))) from error

        of_others = self._note_findings(staged, report.findings)
        if of_others:
            self.notes.append(
                f"the board also has {count(of_others, 'finding')} on other cards; see `ktdeval "
                "leaderboard check`"
            )

        if options.execute and not self.missing:
            for card in _list_unexecuted(staged, report):
                self._note(card.chosen, self._verify(card))

    def _note_findings(self, staged: Sequence[StagedCard], findings: Iterable[Finding]) -> int:
        """Note the findings about the submitted cards; return the number of other findings."""
        others = 0
        found = defaultdict[str, list[str]](list)
        for finding in findings:
            card = next((card for card in staged if card.card_id in finding.path), None)
            if card is None:
                others += 1
            else:
                found[card.card_id].append(_in_words(finding, card))

        for card in staged:
            self._note(card.chosen, found[card.card_id])

        return others

    def _verify(self, card: StagedCard) -> Iterator[str]:
        """Yield why the run does not reproduce its card, judged by the run's own market and all of
        its records.
        """
        try:
            verified = verify_card(card.chosen.path, self.plugins, self.request.changes)
        except KtdevalError as error:
            yield f"does not verify: {error}"
            return

        yield from (f"does not verify: {finding}" for finding in verified.findings)

    def _note(self, chosen: ChosenCard, problems: Iterable[str]) -> None:
        self.missing += [f"{chosen.path.name}: {problem}" for problem in problems]


def _storage_problems(storage: RecordsStorage) -> Iterator[str]:
    """Yield problems with options that are missing or contradict each other."""
    if storage.stored == "repository":
        if storage.url or storage.out is not None:
            yield (
                "records: --records-out applies to records that are stored elsewhere; give their "
                "address with --records https://…"
            )

        return

    if not storage.url:
        yield (
            "records: give their address with --records https://…, or store them in the repository"
        )

    if storage.out is None:
        yield (
            "records: give a folder with --records-out; they are written to it without secrets, "
            "for you to upload"
        )


def _call_problems(run: RunFolder, plugins: Plugins) -> Iterator[str]:
    """Yield how the run's call log contradicts its episodes. The call log is not published, so the
    board can't check this.
    """
    try:
        check_call_log(run, plugins)
    except KtdevalError as error:
        yield f"records: {error}"


def _list_unexecuted(staged: Iterable[StagedCard], report: CheckReport) -> Iterator[StagedCard]:
    """Yield the cards whose records the check did not execute because they are stored elsewhere or
    the board's market is not on this machine. Nothing else has confirmed these cards.
    """
    tiers = {checked.card_id: checked.tier for checked in report.checked}
    for card in staged:
        if tiers.get(card.card_id, "self-reported") == "self-reported":
            yield card


def _in_words(finding: Finding, card: StagedCard) -> str:
    """Return a finding as text. Paths of the card's records are given relative to the records;
    other paths are omitted.
    """
    record = finding.path.partition(f"{card.card_id}/")[2]
    if record:
        return f"{finding.rule}: {record}: {finding.message}"

    return f"{finding.rule}: {finding.message}"


def _describe(board: StagedBoard, card: StagedCard, storage: RecordsStorage) -> Submitted:
    files = card.files
    paths = [files.card, files.submission, files.records]
    if card.signature is not None:
        paths.append(files.signature)
    if storage.stored == "repository":
        paths.append(board.folder.records(card.card_id))

    return Submitted(
        card_id=card.card_id,
        division=card.chosen.division.id,
        model=card.chosen.card.model.name,
        paths=tuple(board.folder.relative(path) for path in paths),
        episodes=card.chosen.card.coverage.episodes_planned,
        record_bytes=card.size,
        redacted=card.bundle.redacted,
    )
