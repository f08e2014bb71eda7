"""Packages that a board allows in the process of a run, although they are not part of ktdeval."""

from __future__ import annotations

from collections.abc import Sequence

from ktdeval.cards import (
    ForeignPackage,
    ScoringCard,
    TradingCard,
    foreign_reason,
    is_not_isolated,
)
from ktdeval.values import Value
from ktdeval_board.document_types import Line, Sha256

NOT_ISOLATED = "not isolated"  #: Label of a card that the board drops if it allows its packages


class AllowedPackage(Value, frozen=True, kw_only=True):
    """Package that the maintainers have read, and allow in the process of a run."""

    name: Line  #: Distribution or module, as on cards (foreign.name)
    sha256: Sha256  #: Hash of its files, as on cards (foreign.sha256)


def standing_reasons(
    card: TradingCard | ScoringCard, allowed: Sequence[AllowedPackage]
) -> list[str]:
    """Return the reasons why a card may not be ranked, without those that a board lifts."""
    lifted: set[str] = set()
    standing: set[str] = set()
    for package in card.foreign:
        if _is_allowed(package, allowed):
            lifted.add(foreign_reason(package))
        else:
            standing.add(foreign_reason(package))

    lifted -= standing  # one of two packages of that name may be another
    return [reason for reason in card.rankable.reasons if reason not in lifted]


def may_be_ranked(card: TradingCard | ScoringCard, allowed: Sequence[AllowedPackage]) -> bool:
    """Return whether a card may be ranked on a board that allows these packages."""
    if card.rankable.value:
        return True
    return bool(card.rankable.reasons) and not standing_reasons(card, allowed)


def is_isolated_here(card: TradingCard | ScoringCard, allowed: Sequence[AllowedPackage]) -> bool:
    """Return whether a card is labelled as not isolated only because of packages that the board
    allows.
    """
    is_known = all(_is_allowed(package, allowed) for package in card.foreign)
    return is_known and bool(card.foreign) and not is_not_isolated(card.deciders, card.episodes)


def _is_allowed(package: ForeignPackage, allowed: Sequence[AllowedPackage]) -> bool:
    return any((each.name, each.sha256) == (package.name, package.sha256) for each in allowed)
