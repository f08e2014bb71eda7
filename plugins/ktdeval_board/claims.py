"""Claims of a submitter on a card: the submission document, and what of it is missing or can't be true."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from ktdeval.contracts import Registrant
from ktdeval.errors import CardError, KtdevalError
from ktdeval.jsonio import JsonValue, read_plain, sha256_hex
from ktdeval.runner import RunFolder
from ktdeval.typed import Value, from_plain
from ktdeval_board.attempts import OF_ONE, is_counted, known_attempts
from ktdeval_board.checking.cards import SubmissionInputs
from ktdeval_board.checking.rules import Stage, findings_of
from ktdeval_board.documents import Submission, in_words
from ktdeval_board.entries import Board, Card, names_of
from ktdeval_board.registrations import family_of
from ktdeval_board.rules import Division

NO_CUTOFF = "none"  #: Given as the cut-off date: nothing was trained

_NO_CARD = "0" * 64
_STAND_INS = {"submitter": "x", "contact": "https://example.org", "cutoff": NO_CUTOFF, "cutoff_source": "x", "attempts": 1}


class Claims(Value, frozen=True, kw_only=True):
    """Facts that only the submitter knows; empty, or None, where nothing was claimed."""

    submitter: str = ""
    contact: str = ""
    organisation: str = ""
    url: str = ""
    cutoff: str = ""
    cutoff_source: str = ""
    released_on: str = ""
    open_weights: bool | None = None
    model_url: str = ""
    strategy: str = ""
    agent_url: str = ""
    attempts: int | None = None
    attempts_note: str = ""
    note: str = ""


def make_submission(card: Card, card_id: str, claims: Claims, today: str) -> Submission:
    """Make the submission document; what was not claimed is left out."""
    model: dict[str, JsonValue] = {"name": card.model.name, "cutoff_source": claims.cutoff_source, "url": claims.model_url}
    model |= {"released_on": claims.released_on, "open_weights": claims.open_weights}
    submitter = {"name": claims.submitter, "contact": claims.contact, "organisation": claims.organisation, "url": claims.url}
    document: dict[str, JsonValue] = {
        "schema_version": 1,
        "card": card_id,
        "submitter": _without_empty(submitter),
        "model": {**_without_empty(model), "cutoff_date": claims.cutoff},
        "agent": _without_empty({"name": card.agent.name, "strategy": claims.strategy, "url": claims.agent_url}),
        "attempts": _without_empty({"runs": claims.attempts, "note": claims.attempts_note}),
        "submitted_on": today,
        "statement": True,
        **_without_empty({"note": claims.note}),
    }
    return from_plain(document, Submission, "submission", CardError)


def _without_empty(values: dict[str, JsonValue]) -> dict[str, JsonValue]:
    return {name: value for name, value in values.items() if value not in ("", None)}


def claim_problems(board: Board, card: Card, claims: Claims, today: str) -> Iterator[str]:
    """Yield what is missing of the claims on a card, or can't be true."""
    if not claims.submitter:
        yield "submitter: say who submits with --submitter"
    if not claims.contact:
        yield "contact: give an e-mail address or an https address with --contact, at which questions are answered"
    if not claims.cutoff:
        yield (
            "cut-off date: say with --cutoff YYYY-MM-DD how far the model's training data reach, --cutoff none where nothing was "
            "trained, or --cutoff unknown; with a --cutoff-source that says where this is from"
        )
    elif not claims.cutoff_source:
        yield "cut-off date: say with --cutoff-source where it is from, what shows that nothing was trained, or why it is not known"
    # What is missing is reported by now, so that what was claimed can be judged.
    lacking: dict[str, Any] = {name: value for name, value in _STAND_INS.items() if not getattr(claims, name)}
    try:
        submission = make_submission(card, _NO_CARD, msgspec.structs.replace(claims, **lacking), today)
    except CardError as error:
        yield in_words(str(error))
        return
    inputs = SubmissionInputs("submission", board.rules, _NO_CARD, card, submission, today, board.registrations)
    yield from (f"{finding.rule}: {finding.message}" for finding in findings_of(Stage.SUBMISSION, inputs))


def attempt_problems(board: Board, division: Division, run: RunFolder, card: Card, claims: Claims) -> Iterator[str]:
    """Yield declared attempts that are missing, or fewer than can be seen.

    The runs in its folder are seen, and the cards on the board, this one included: those of other reasoning settings count, as
    their runs do, and so do withdrawn ones. Where the board draws the keys, its registrations are seen, too.
    """
    runs, declared = count_runs(run, card, division), claims.attempts
    drawn = _drawn_attempts(board, division, card, claims)
    wanted = (division, card.model.name, card.agent.name)
    cards = sum((entry.division, entry.model, entry.agent) == wanted for entry in board.entries)
    there = [f"{runs} beside each other in {run.path.resolve().parent}"] if runs > 1 else []
    there += [f"{cards} on the board, withdrawn ones included"] if cards else []
    there += [f"{drawn} registrations and cards {OF_ONE} on the board"] if drawn > 1 else []
    seen = ", and ".join(there)
    if declared is None:
        yield (
            "attempts: say with --attempts how many runs were made of this model and agent on this task's windows, this one, "
            f"limited and aborted ones included{f' (seen: {seen})' if seen else ''}"
        )
    elif declared < max(runs, cards + 1, drawn):
        yield f"attempts: {declared} declared, but there are more: {seen}; say how many with --attempts"


def _drawn_attempts(board: Board, division: Division, card: Card, claims: Claims) -> int:
    """Return the attempts that a board knows of, this card included; 0 where it counts none itself."""
    if not is_counted(card, division, board.rules) or not (claims.submitter and claims.contact):
        return 0
    registrant = Registrant(name=claims.submitter, contact=claims.contact)
    family = family_of(division.id, card.model.name, card.agent.name)
    return known_attempts(board.registrations, board.own_key_families, registrant, family)


def count_runs(run: RunFolder, card: Card, division: Division) -> int:
    """Count the runs of a card's model, agent and task on the division's market and days, in the folder that its run lies in.

    Limited and unfinished ones count; a copy of a run does not, for its episodes took the very same time.
    """
    seen: set[str] = set()
    for manifest in sorted(run.path.resolve().parent.glob("*/manifest.json")):
        try:
            other = RunFolder.load(manifest.parent)
        except KtdevalError:
            continue  # another kind of manifest, or a damaged one: it shows no attempt
        if _is_attempt(other, card, division):
            marks = [read_plain(path) for path in sorted(other.path.glob("episodes/*/episode.json"))]
            seen.add(sha256_hex(b"".join(marks)) if marks else str(other.path))
    return max(len(seen), 1)


def _is_attempt(run: RunFolder, card: Card, division: Division) -> bool:
    wanted = (*names_of(card), card.snapshot and card.snapshot.id)
    return any(
        (spec.task, spec.model, spec.agent, spec.snapshot) == wanted
        and (not spec.window or any(spec.window.first <= each.last and each.first <= spec.window.last for each in division.windows))
        for spec in run.manifest.specs
    )
