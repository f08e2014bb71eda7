"""A division's rows and tables, as passed from the ranking to the site."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypedDict

from ktdeval.values import JsonValue, to_object
from ktdeval_board.board_entries import EntryFacts, EvidenceFacts
from ktdeval_board.ranking.fresh_windows import FreshFacts

Ranks = Sequence[int | None]
"""Rank or tie group of each card; None for a card without one."""


class Standing(TypedDict):
    """A card's place in a table. Ranks and tie groups are None for an unranked card."""

    ranked: bool
    why: list[str]  #: reasons why the card is unranked
    rank: int | None
    alpha_rank: int | None
    tie: int | None  #: the card's tie group by the figure that determines ranks
    alpha_tie: int | None
    shared_rank: int | None  #: best place in the card's tie group; its own rank if it has no group
    worst_rank: int | None  #: worst place in the card's tie group; its own rank if it has no group
    tied_with: int  #: number of other ranked cards in its tie group
    #: places of the card's tie group, such as `1, 3` or `1–4, 6`; empty if it has no rank. Four cards
    #: that share rank 37 have the places 37 to 40
    group_ranks: str
    shared_alpha_rank: int | None  #: like `shared_rank`, by selection alpha
    worst_alpha_rank: int | None
    alpha_tied_with: int
    alpha_group_ranks: str


class FigureRow(TypedDict):
    """Figures in a row. Each list is in the order of the table's columns."""

    values: list[float | None]
    low: list[float | None]
    high: list[float | None]
    interval: list[str | None]  #: kind of interval that `low` and `high` bound
    n: list[int]
    reasons: Mapping[str, str]  #: why a value is undefined, keyed by column


class Row(EntryFacts, Standing, FigureRow):
    """Table row for a card, or for one of the references that are always shown."""

    model: str
    strategy: str
    attempts: int | None
    registration: str | None
    fresh: FreshFacts | None  #: None except for cards in a division with fresh windows
    #: the card's evidence on a question registered before its key was drawn; None if the row has no
    #: card
    evidence: EvidenceFacts | None
    #: mean daily excess over each reference in `Table.tests`: its value and the ends of its
    #: simultaneous interval; the ends are None for a baseline. None if the row was not tested
    excess: list[list[float | None] | None]


class ReferenceFacts(TypedDict):
    """Test of all ranked systems against one reference."""

    reference: str  #: name as used in a sentence, such as `random traders`
    systems: int  #: number of ranked systems tested
    days: int
    level: float  #: two-sided level of all intervals together
    #: mean daily excess of the worst and the best of as many random traders as `systems`, at this
    #: level; None without random traders or if there is no interval
    band: list[float | None] | None
    reason: str | None  #: why there are no intervals


class Ties(TypedDict):
    """Test that produced the tie groups of a table."""

    groups: int
    tested: int  #: number of cards tested
    days: int
    p: Mapping[str, float]  #: p-values, keyed by card id
    reason: str | None  #: why there are no tie groups


class Table(TypedDict):
    """Ranked table for a division over one scope."""

    division: str
    scope: str
    rank_by: str
    columns: Sequence[str]
    missing_baselines: Sequence[str]
    rows: list[Row]
    notes: list[str]
    #: sentence that says which systems beat the index and random traders; empty if that can't be
    #: tested
    verdict: str
    verdict_figures: str  #: figures and intervals of the best tested system; empty without a test
    tests: list[ReferenceFacts]  #: tests that the verdict states
    ties: Mapping[str, Ties]  #: ties, keyed by `return` and `alpha`


Tables = Mapping[str, Mapping[str, Table]]
"""Tables, keyed by division id and scope."""


def place_cards(
    why: Sequence[list[str]], ranks: tuple[Ranks, Ranks], ties: tuple[Ranks, Ranks]
) -> Iterator[Standing]:
    """Yield the standing of each card.

    `why` lists the reasons why each card is unranked. `ranks` are the ranks by the division's
    figure and by selection alpha, and `ties` are the tie groups for these two.
    """
    places = _group_places(ranks[0], ties[0])
    alpha_places = _group_places(ranks[1], ties[1])
    tied_with = _tied_with(ranks[0], ties[0])
    alpha_tied_with = _tied_with(ranks[1], ties[1])
    for card, reasons in enumerate(why):
        yield {
            "ranked": ranks[0][card] is not None,
            "why": reasons,
            "rank": ranks[0][card],
            "alpha_rank": ranks[1][card],
            "tie": ties[0][card],
            "alpha_tie": ties[1][card],
            "shared_rank": min(places[card], default=None),
            "worst_rank": max(places[card], default=None),
            "tied_with": tied_with[card],
            "group_ranks": ranks_words(places[card]),
            "shared_alpha_rank": min(alpha_places[card], default=None),
            "worst_alpha_rank": max(alpha_places[card], default=None),
            "alpha_tied_with": alpha_tied_with[card],
            "alpha_group_ranks": ranks_words(alpha_places[card]),
        }


def no_standing() -> Standing:
    """Return the standing of a reference row, which is not a card."""
    none = ([None], [None])
    (standing,) = place_cards([[]], none, none)
    return standing


def standing_fields(row: Row) -> dict[str, JsonValue]:
    """Return the fields of a row that form its standing, as JSON."""
    names = Standing.__annotations__
    return to_object({name: value for name, value in row.items() if name in names})


def _group_places(ranks: Ranks, ties: Ranks) -> list[set[int]]:
    """Return the places of each row's tie group. A row without a group has only its own rank, and a
    row without a rank has no place.
    """
    sharing = Counter(rank for rank in ranks if rank is not None)
    places_of_group: dict[int, set[int]] = defaultdict(set)
    for rank, tie in zip(ranks, ties, strict=True):
        if rank is not None and tie is not None:
            places_of_group[tie].update(range(rank, rank + sharing[rank]))

    places: list[set[int]] = []
    for rank, tie in zip(ranks, ties, strict=True):
        if rank is None:
            places.append(set())
        elif tie is None:
            places.append({rank})
        else:
            places.append(places_of_group[tie])

    return places


def _tied_with(ranks: Ranks, ties: Ranks) -> list[int]:
    """Return the number of other ranked cards in each row's tie group."""
    members = Counter(tie for rank, tie in zip(ranks, ties, strict=True) if None not in (rank, tie))
    return [max(0, members[tie] - 1) for tie in ties]


def ranks_words(ranks: Iterable[int]) -> str:
    """Return places as text: a dash only between places that follow each other, since a tie group
    need not have the places between its best and its worst.

    Example:
        ranks_words([3, 1, 5, 4])  # "1, 3–5"
    """
    spans: list[list[int]] = []
    for rank in sorted(set(ranks)):
        if spans and rank == spans[-1][1] + 1:
            spans[-1][1] = rank
        else:
            spans.append([rank, rank])

    return ", ".join(str(first) if first == last else f"{first}–{last}" for first, last in spans)
