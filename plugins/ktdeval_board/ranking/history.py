"""Events on a board, by day, and who was best when."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ktdeval.jsonio import JsonValue
from ktdeval_board.entries import Board, Entry
from ktdeval_board.ranking.order import system_labels

Rankings = Mapping[str, Mapping[str, JsonValue]]
"""Division id -> scope -> table of `rank_division`."""

_ORDER = ("submitted", "checked", "rerun", "erratum")


def history(board: Board, rankings: Rankings) -> JsonValue:
    """Events of the board, and the best of each division over time.

    Returns `events` in the order of their dates, errata of cards that are no longer there included; `best`: for each division the
    ranked cards that were ahead of all on the day of their submission, by today's ranks.
    """
    labels = system_labels(board)
    events = [event for entry in board.entries for event in _events(entry, labels[entry.card_id])]
    known = {entry.card_id for entry in board.entries}
    events += [
        _event(erratum.date, "erratum", None, erratum.card, f"a card that is no longer here: {erratum.effect}: {erratum.what}")
        for erratum in board.errata
        if erratum.card not in known
    ]
    events.sort(key=lambda event: (event["date"], _ORDER.index(event["kind"]), event["card"]))
    return {"events": events, "best": [best for division in board.rules.divisions for best in _best(division.id, rankings)]}


def _event(date: str, kind: str, entry: Entry | None, card_id: str, text: str) -> dict[str, JsonValue]:
    return {
        "date": date,
        "kind": kind,
        "card": card_id,
        "model": None if entry is None else entry.model,
        "agent": None if entry is None else entry.agent,
        "division": None if entry is None or entry.division is None else entry.division.id,
        "text": text,
    }


def _events(entry: Entry, label: str) -> Iterator[dict[str, JsonValue]]:
    submission, verdict = entry.submission, entry.verdict
    said = f"{label} was submitted by {submission.submitter.name}"
    yield _event(submission.submitted_on, "submitted", entry, entry.card_id, said)
    if verdict is not None:
        steps = f"; {verdict.steps:,} steps were executed again" if verdict.steps else ""
        yield _event(verdict.checked_on, "checked", entry, entry.card_id, f"{label} was checked: {verdict.tier}{steps}")
        if verdict.rerun is not None:
            yield _event(verdict.rerun.on, "rerun", entry, entry.card_id, f"{label} was run again by {verdict.rerun.by}")
    for erratum in entry.errata:
        by = f" ({erratum.by})" if erratum.by else ""
        yield _event(erratum.date, "erratum", entry, entry.card_id, f"{label}: {erratum.effect}: {erratum.what}{by}")


def _best(division_id: str, rankings: Rankings) -> Iterator[JsonValue]:
    """Ranked rows that were ahead of all submitted until their day; of those of one day the best alone."""
    table = rankings.get(division_id, {}).get("all")
    if table is None:
        return
    column = table["columns"].index(table["rank_by"]) if table["rows"] else 0
    ahead: int | None = None
    ranked = [row for row in table["rows"] if row["rank"] is not None]
    for row in sorted(ranked, key=lambda row: (row["submitted_on"], row["rank"], row["card"])):
        if ahead is None or row["rank"] < ahead:
            ahead = row["rank"]
            yield {
                "division": division_id,
                "date": row["submitted_on"],
                "card": row["card"],
                "label": row["label"],
                "value": row["values"][column],
            }
