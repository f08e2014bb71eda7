"""What a submitter says of a card: the submission document, and what of it is missing or can't be true."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ktdeval.api import JsonValue
from ktdeval_board.documents import schema_problems
from ktdeval_board.entries import Board
from ktdeval_board.requirements import Candidate, attempts_seen

NO_CUTOFF = "none"
"""Given as the cut-off date: there is none, or it is not known."""

_NO_CARD = "0" * 64
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)


@dataclass(frozen=True)
class Claims:
    """What only the submitter can say; empty, or None, where nothing was said."""

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


def make_submission(card: Mapping[str, JsonValue], card_id: str, claims: Claims, today: str) -> dict[str, JsonValue]:
    """The submission document; what was not said is left out."""
    model: dict[str, JsonValue] = {
        "name": card["model"]["name"],
        "cutoff_date": None if claims.cutoff == NO_CUTOFF else claims.cutoff,
        "cutoff_source": claims.cutoff_source,
        **said(released_on=claims.released_on, open_weights=claims.open_weights, url=claims.model_url),
    }
    submitter = {"name": claims.submitter, "contact": claims.contact, **said(organisation=claims.organisation, url=claims.url)}
    return {
        "schema_version": 1,
        "card": card_id,
        "submitter": submitter,
        "model": model,
        "agent": {"name": card["agent"]["name"], **said(strategy=claims.strategy, url=claims.agent_url)},
        "attempts": {"runs": claims.attempts, **said(note=claims.attempts_note)},
        "submitted_on": today,
        "statement": True,
        **said(note=claims.note),
    }


def said(**values: JsonValue) -> dict[str, JsonValue]:
    """The values that are neither empty nor None, by name."""
    return {name: value for name, value in values.items() if value not in ("", None)}


def claim_problems(board: Board, candidate: Candidate, claims: Claims, today: str) -> Iterator[str]:
    """What is missing of the claims on a card, or can't be true.

    Args:
        board: the board.
        candidate: the card.
        claims: what is said of it.
        today: day of the submission, YYYY-MM-DD.
    """
    if not claims.submitter:
        yield "submitter: say who submits with --submitter"
    if not claims.contact:
        yield "contact: give an e-mail address or an https address with --contact, at which questions are answered"
    if not claims.cutoff:
        yield (
            "cut-off date: say with --cutoff YYYY-MM-DD how far the model's training data reach, or --cutoff none with a "
            "--cutoff-source that says why there is no date"
        )
    elif not claims.cutoff_source:
        yield "cut-off date: say with --cutoff-source where it is from, or why there is none"
    elif _DAY.fullmatch(claims.cutoff) and claims.cutoff > today:
        yield f"cut-off date: {claims.cutoff} is after {today}, the day of the submission"
    if board.rules.opened_on and today < board.rules.opened_on:
        yield f"date: {today} is before the board's first day, {board.rules.opened_on}"
    yield from _attempt_problems(board, candidate, claims)
    document = make_submission(candidate.card, _NO_CARD, replace(claims, **_stand_ins(claims)), today)
    yield from (f"submission: {problem}" for problem in schema_problems(document, "submission"))


def _stand_ins(claims: Claims) -> dict[str, Any]:
    """For what is missing, so that what was given can be held against the schema; that it is missing was said."""
    wanted = {"submitter": "x", "contact": "https://example.org", "cutoff": NO_CUTOFF, "cutoff_source": "x", "attempts": 1}
    return {name: value for name, value in wanted.items() if not getattr(claims, name) and getattr(claims, name) != 0}


def _attempt_problems(board: Board, candidate: Candidate, claims: Claims) -> Iterator[str]:
    runs, cards = attempts_seen(board, candidate)
    seen = f"{runs} beside each other in {candidate.run.path.resolve().parent}" if runs > 1 else ""
    if cards > 1:
        seen = f"{seen}{', and ' if seen else ''}{cards - 1} on the board, withdrawn ones included"
    if claims.attempts is None:
        yield (
            "attempts: say with --attempts how many runs were made of this model and agent on this task's windows, this one, "
            f"limited and aborted ones included{f' (seen: {seen})' if seen else ''}"
        )
    elif claims.attempts < max(runs, cards):
        yield f"attempts: {claims.attempts} declared, but there are more: {seen}; say how many with --attempts"
