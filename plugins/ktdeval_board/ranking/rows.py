"""Rows and tables of a division, as the site and the ranking pass them on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TypedDict

from ktdeval_board.board_entries import EntryFacts, EvidenceFacts
from ktdeval_board.ranking.fresh_windows import FreshFacts


class Standing(TypedDict):
    """Place of a card in a table; all None for a card without a rank."""

    ranked: bool
    why: list[str]  #: why it has no rank
    rank: int | None
    alpha_rank: int | None
    tie: int | None  #: tie group by the figure that ranks go by
    alpha_tie: int | None
    shared_rank: int | None  #: best rank of its tie group; its own rank without one
    tied_with: int  #: other ranked cards of its tie group
    shared_alpha_rank: int | None  #: the same of its rank by selection alpha
    alpha_tied_with: int


class FigureRow(TypedDict):
    """Figures of a row, each a list in the order of the table's columns."""

    values: list[float | None]
    low: list[float | None]
    high: list[float | None]
    interval: list[str | None]  #: what low and high are
    n: list[int]
    reasons: Mapping[str, str]  #: column to why its value is undefined


class Row(EntryFacts, Standing, FigureRow):
    """Row of a table: a card, or one of the references that are always there."""

    model: str
    strategy: str
    attempts: int | None
    registration: str | None
    fresh: FreshFacts | None  #: None but for cards of a division of fresh windows
    #: whether it answers a question that was registered before its key was drawn; None: no card
    evidence: EvidenceFacts | None


class Ties(TypedDict):
    """Test that gave the tie groups of a table."""

    groups: int
    tested: int  #: cards that took part
    days: int
    p: Mapping[str, float]  #: card id to p-value
    reason: str | None  #: why there are no groups


class Table(TypedDict):
    """Ranked table of a division over one scope."""

    division: str
    scope: str
    rank_by: str
    columns: Sequence[str]
    missing_baselines: Sequence[str]
    rows: list[Row]
    notes: list[str]
    ties: Mapping[str, Ties]  #: `return` and `alpha`


Tables = Mapping[str, Mapping[str, Table]]
"""Division id to scope to table."""


def share_ranks(rows: Sequence[Row]) -> list[Row]:
    """Return rows whose ranked cards have the ranks that their tie groups share, and how many
    others share them.
    """
    places = _shared_ranks([row["rank"] for row in rows], [row["tie"] for row in rows])
    by_alpha = _shared_ranks(
        [row["alpha_rank"] for row in rows], [row["alpha_tie"] for row in rows]
    )
    shared: list[Row] = []
    for row, place, alpha in zip(rows, places, by_alpha, strict=True):
        rank, tied_with = place
        alpha_rank, alpha_tied_with = alpha
        shared.append(
            {
                **row,
                "shared_rank": rank,
                "tied_with": tied_with,
                "shared_alpha_rank": alpha_rank,
                "alpha_tied_with": alpha_tied_with,
            }
        )

    return shared


def _shared_ranks(
    ranks: Sequence[int | None], ties: Sequence[int | None]
) -> list[tuple[int | None, int]]:
    """Return for each row the best rank of its tie group, and how many others are in it; its own
    rank without a group.
    """
    ranks_of_group: dict[int, list[int]] = defaultdict(list)
    for rank, tie in zip(ranks, ties, strict=True):
        if rank is not None and tie is not None:
            ranks_of_group[tie].append(rank)

    shared: list[tuple[int | None, int]] = []
    for rank, tie in zip(ranks, ties, strict=True):
        if rank is None or tie is None:
            shared.append((rank, 0))
        else:
            group = ranks_of_group[tie]
            shared.append((min(group), len(group) - 1))

    return shared
