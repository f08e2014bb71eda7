"""State logs of TradingAgents: `full_states_log_DAY.json` of an asset and day, one file or a folder.

A log has a rating (Buy, Overweight, Hold, Underweight, Sell) in the words of the portfolio manager, and
no size. The rating is found by TradingAgents' own rule; sizes are this module's assumption.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from ktdeval_judge.declared import Declared
from ktdeval_judge.readers.cells import CellRow, day_of, object_row
from ktdeval_judge.readers.frames import targets_of
from ktdeval_judge.readers.sample import FileSample, ReadOptions, load_document

name = "tradingagents"
_KEYS = ("company_of_interest", "trade_date", "final_trade_decision")
_TIERS = ("buy", "overweight", "hold", "underweight", "sell")
_LABEL = re.compile(r"rating[^\n]{0,200}?[:\-][\s*]*([A-Za-z]+)", re.IGNORECASE)
_PROPOSAL = re.compile(r"final transaction proposal[\s:*]*([A-Za-z]+)", re.IGNORECASE)
_SIZES = (
    "Ratings say no size. Each asset of the logs has an equal share of the account: Buy fills it, Sell"
    " empties it, Overweight goes half of the way up, Underweight half of the way down. A day on which"
    " all ratings are Hold trades nothing; another brings all assets to their shares."
)


def recognises(sample: FileSample) -> bool:
    """Whether a document is a log of one day, or of several by their day."""
    return sample.has_keys(*_KEYS) or sample.inner_keys.issuperset(_KEYS)


def read(path: Path, options: ReadOptions) -> Declared:
    """Return what a log declares. Raises DataError: the first fault, with its place."""
    return read_all((path,), options)


def read_all(paths: Sequence[Path], _options: ReadOptions) -> Declared:
    """Return what several logs declare together: shares depend on how many assets there are."""
    ratings: dict[tuple[int, str], str] = {}
    for path in paths:
        for state in _states(path):
            day = day_of(state.moment("trade_date"))
            code = state.text("company_of_interest")
            rating = rating_of(state.text("final_trade_decision"))
            if ratings.setdefault((day, code), rating) != rating:
                state.refuse("trade_date", f"{code[:40]} has two ratings of {day}; keep one log")

    unrated = sum(not rating for rating in ratings.values())

    notes = [_SIZES]
    if unrated:
        notes.append(f"Decisions without a rating, read as Hold as TradingAgents does: {unrated}.")

    source = paths[0].name if len(paths) == 1 else f"{len(paths)} logs"
    return Declared(
        program=name,
        source=source,
        decisions=targets_of(_books(ratings), "weight", paths[0]),
        notes=tuple(notes),
    )


def rating_of(text: str) -> str:
    """Return the rating in a decision: after the word rating, or in a final transaction proposal, else
    the first word that is one; empty: none.
    """
    for pattern in (_LABEL, _PROPOSAL):
        for line in text.splitlines():
            found = pattern.search(line)
            if found and found[1].lower() in _TIERS:
                return found[1].lower()

    for word in text.lower().split():
        bare = word.strip("*:.,")
        if bare in _TIERS:
            return bare

    return ""


def _states(path: Path) -> Iterator[CellRow]:
    document = object_row(str(path), load_document(path))
    if document.cells.keys().isdisjoint(_KEYS) and document.cells:
        for key, state in document.cells.items():
            yield object_row(f"{path}: {key[:40]}", state)
    else:
        yield document


def _books(ratings: dict[tuple[int, str], str]) -> dict[int, dict[str, float]]:
    """Return target weights of each asset that was rated until then, by days with a rating other than
    Hold.
    """
    share = 1.0 / max(len({code for _, code in ratings}), 1)
    book: dict[str, float] = {}
    books: dict[int, dict[str, float]] = {}
    moving: set[int] = set()
    for day, code in sorted(ratings):
        held = book.get(code, 0.0)
        moved = {
            "buy": share,
            "overweight": (held + share) / 2,
            "underweight": held / 2,
            "sell": 0.0,
        }
        rating = ratings[day, code]
        book[code] = moved.get(rating, held)
        if rating in moved:
            moving.add(day)
        books[day] = dict(book)

    return {day: books[day] for day in sorted(moving)}
