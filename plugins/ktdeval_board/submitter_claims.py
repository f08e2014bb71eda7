"""A submitter's claims about a card: the submission document, and problems that are visible only on
the submitter's machine. The rules of the check decide what a claim may contain.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from ktdeval.errors import KtdevalError
from ktdeval.runner import RunFolder, runs_beside
from ktdeval.task_api import EpisodeSpec
from ktdeval.values import JsonValue, Value, read_plain, sha256_hex
from ktdeval_board.board_entries import Card, names_of
from ktdeval_board.rules import Division

NO_CUTOFF = "none"  #: Value of the cutoff date for a model that was not trained


class Claims(Value, frozen=True, kw_only=True):
    """Facts that only the submitter knows. A field is empty or None if nothing was claimed."""

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


def submission_document(card: Card, card_id: str, claims: Claims, today: str) -> JsonValue:
    """Return the submission document as JSON, omitting fields that were not claimed.

    The document may violate the schema, since the claims are the submitter's own words. The check
    validates them.
    """
    submitter = {
        "name": claims.submitter,
        "contact": claims.contact,
        "organisation": claims.organisation,
        "url": claims.url,
    }
    model = {
        "name": card.model.name,
        "cutoff_date": claims.cutoff,
        "cutoff_source": claims.cutoff_source,
        "released_on": claims.released_on,
        "open_weights": claims.open_weights,
        "url": claims.model_url,
    }
    agent = {"name": card.agent.name, "strategy": claims.strategy, "url": claims.agent_url}
    attempts = {"runs": claims.attempts, "note": claims.attempts_note}

    return {
        "schema_version": 1,
        "card": card_id,
        "submitter": _without_empty(submitter),
        "model": _without_empty(model),
        "agent": _without_empty(agent),
        "attempts": _without_empty(attempts),
        "submitted_on": today,
        "statement": True,
        **_without_empty({"note": claims.note}),
    }


def _without_empty(values: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    return {name: value for name, value in values.items() if value not in ("", None)}


_MAX_ATTEMPTS = 1_000_000
_STAND_INS: Mapping[str, str | int] = {
    "submitter": "x",
    "contact": "https://example.org",
    "cutoff": NO_CUTOFF,
    "cutoff_source": "x",
    "attempts": _MAX_ATTEMPTS,
}
"""Placeholder values that no rule refuses."""


def with_stand_ins(claims: Claims) -> Claims:
    """Fill in missing claims, so that a check reports problems with the remaining claims.

    Such a submission is never accepted: `missing_claims` reports what was filled in.
    """
    lacking = {
        name: value for name, value in _STAND_INS.items() if getattr(claims, name) in ("", None)
    }
    return replace(claims, **lacking)


def missing_claims(claims: Claims) -> Iterator[str]:
    """Yield the missing claims that every submission needs, other than attempts."""
    if not claims.submitter:
        yield "submitter: give your name with --submitter"

    if not claims.contact:
        yield ("contact: give an e-mail or https address for questions with --contact")

    if not claims.cutoff:
        yield (
            "cut-off date: give the end of the model's training data: --cutoff YYYY-MM-DD, "
            "--cutoff none (nothing was trained) or --cutoff unknown, and its source with "
            "--cutoff-source"
        )
    elif not claims.cutoff_source:
        yield (
            "cut-off date: give with --cutoff-source its source, what shows that nothing was "
            "trained, or why it is unknown"
        )


# ---- attempts


def attempt_problems(
    run: RunFolder, card: Card, division: Division, declared: int | None
) -> Iterator[str]:
    """Yield a problem if attempts were not declared, or if fewer were declared than there are runs
    next to the submitted one. The check counts the attempts on the board.
    """
    runs = count_runs(run, card, division)
    beside = f"{runs} next to each other in {run.path.resolve().parent}"
    seen = f" (seen: {beside})" if runs > 1 else ""

    if declared is None:
        yield (
            "attempts: give with --attempts how many runs of this model and agent were made on "
            f"this task's windows, including this one and limited or aborted ones{seen}"
        )
    elif declared < runs and runs > 1:
        yield (f"attempts: {declared} declared, but there are more: {beside}; correct --attempts")


def count_runs(run: RunFolder, card: Card, division: Division) -> int:
    """Count the runs of a card's model, agent and task, on the division's market and days, in the
    folder that contains the card's run.

    Limited and unfinished runs are included. Copies of a run are not counted; they are recognised
    by episodes with exactly the same durations.
    """
    seen: set[str] = set()
    for path in runs_beside(run.path):
        try:
            other = RunFolder.load(path)
        except KtdevalError:
            continue  # A manifest of another kind, or a damaged one, does not prove an attempt.

        if any(_is_attempt(spec, card, division) for spec in other.manifest.specs):
            seen.add(_fingerprint(other))

    return max(len(seen), 1)


def _fingerprint(run: RunFolder) -> str:
    """Return what copies of a run share: the completion marks of its episodes, which contain the
    episodes' durations.
    """
    complete = sorted(run.complete_specs(), key=lambda spec: spec.id)
    marks = [read_plain(run.mark_path(spec)) for spec in complete]
    if not marks:
        return str(run.path)

    return sha256_hex(b"".join(marks))


def _is_attempt(spec: EpisodeSpec, card: Card, division: Division) -> bool:
    snapshot = card.snapshot.id if card.snapshot else None
    if (spec.task, spec.model, spec.agent, spec.snapshot) != (*names_of(card), snapshot):
        return False
    if not spec.window:
        return True

    days = spec.window
    return any(days.first <= each.last and each.first <= days.last for each in division.windows)
