"""Heads of runs' anchors that a board holds: published while a run goes on, and compared with the
chain in the records that are submitted later.

A submitter can make records, chain and time stamps anew. The board's copy of a head is nobody's to
delete: if the submitted chain does not contain it, the run was rewound after it was published.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from msgspec import Meta, UnsetType

from ktdeval.cards import ScoringCard, TradingCard, count
from ktdeval.errors import KtdevalError
from ktdeval.runner import ANCHORS as CHAIN_FILE, AnchorChain, load_anchors
from ktdeval_board.document_types import Count, Day, OmitDefaults, Sha256, Version1
from ktdeval_board.layout import BoardFolder
from ktdeval_board.rules import Division, Rules

Card = TradingCard | ScoringCard

_HOW = (
    "run with `ktdeval run --registration keys/ID.json --anchor board --out RUN` and, while it goes"
    " on, publish heads with `ktdeval leaderboard anchor RUN`"
)


class AnchoredHead(OmitDefaults, frozen=True, kw_only=True):
    """Head of a registered run's chain of anchors, published while the run goes on, version 1."""

    schema_version: Version1
    registration: Sha256  #: Id of the run's registration
    head: Sha256  #: SHA-256 of the last line of the chain at that time
    links: Annotated[int, Meta(ge=1)]  #: Number of lines of the chain at that time
    steps: Count  #: Number of recorded steps that they cover
    anchored_on: Day


@dataclass(frozen=True)
class PublishedHead:
    """A head on a board."""

    where: str  #: its file, relative to the board
    head: AnchoredHead


@dataclass(frozen=True)
class CardAnchors:
    """What a board holds about the anchors of a card's run, and the chain in the card's records."""

    published: tuple[PublishedHead, ...] = ()  #: heads of the card's registration
    chain: AnchorChain | None = None  #: None if the records have none, or it can't be read
    problem: str = ""  #: why the chain can't be read

    def evidence(self, rules: Rules) -> list[int]:
        """Return the numbers of links whose hashes somebody other than the submitter holds: the
        board, or an authority that it trusts.
        """
        if self.chain is None:
            return []

        trusted = frozenset(authority.sha256 for authority in rules.time_authorities)
        found = self.chain.stamped_by(trusted)
        for each in self.published:
            if _is_in(self.chain, each.head):
                found.append(each.head.links - 1)
        return sorted(set(found))


NO_ANCHORS = CardAnchors()


def _is_in(chain: AnchorChain, head: AnchoredHead) -> bool:
    return head.links <= len(chain.heads) and chain.heads[head.links - 1] == head.head


def load_chain(records: Path | None, max_bytes: int) -> tuple[AnchorChain | None, str]:
    """Return the chain in a card's records, and why it can't be read. Both are empty if the records
    are not here or have none.
    """
    path = None if records is None else records / CHAIN_FILE
    if path is None or path.is_symlink() or not path.is_file():
        return None, ""
    if path.stat().st_size > max_bytes:
        return None, f"{CHAIN_FILE}: is larger than {max_bytes:,} bytes"

    try:
        return load_anchors(path), ""
    except KtdevalError as error:
        return None, str(error).removeprefix(f"{path.parent}/")


def anchor_problems(
    card: Card, division: Division | None, rules: Rules, anchors: CardAnchors
) -> Iterator[str]:
    """Yield the published heads that a card's chain lacks, and why its anchors do not suffice for a
    division that requires them.
    """
    if anchors.problem:
        yield anchors.problem
        return

    for each in anchors.published:
        if anchors.chain is None:
            yield (
                f"{each.where}: the board holds this head of the run, but the card's records have no"
                f" {CHAIN_FILE}; submit the run that was anchored, with its records in the"
                " repository"
            )
        elif not _is_in(anchors.chain, each.head):
            yield (
                f"{each.where}: the board holds this head of the run, which the submitted chain"
                " does not contain: its records were made anew or cut after the head was published;"
                " submit the run that was anchored, or register again"
            )

    if division is None or division.anchors == "optional":
        return
    if rules.baseline_of(card.model.name, card.model.args) is None:
        yield from _required_problems(division, rules, anchors)


def _required_problems(division: Division, rules: Rules, anchors: CardAnchors) -> Iterator[str]:
    """Yield why a card's anchors do not suffice for a division that requires them."""
    if anchors.chain is None:
        yield f"division {division.id} requires anchors, and the card's records have none; {_HOW}"
        return

    steps = sum(len(each) for each in anchors.chain.steps.values())
    evidence = anchors.evidence(rules)
    if not evidence or (steps > 1 and anchors.chain.widest_gap(evidence) >= steps):
        yield (
            f"division {division.id} requires anchors, and no head between the run's first and last"
            f" step is on the board or stamped by an authority in time_authorities; {_HOW}"
        )


def anchored_words(card: Card, folder: BoardFolder, rules: Rules) -> str:
    """Return how a card's run was anchored while it went on, such as `3 heads on this board`; empty
    if neither the board nor an authority that it trusts holds a head.
    """
    anchors = card.provenance.anchors
    if isinstance(anchors, UnsetType):
        return ""

    words = []
    if card.registration:
        published = len(folder.list_anchors(card.registration))
        if published:
            words.append(f"{count(published, 'head')} on this board")

    trusted = {authority.sha256 for authority in rules.time_authorities}
    if anchors.stamps and trusted.issuperset(anchors.authorities):
        words.append(
            f"{count(anchors.stamps, 'time stamp')}, at most {count(anchors.gap, 'step')} between"
            " two"
        )
    return "; ".join(words)
