"""Definitions of cohorts of systems. A cohort is defined by items: system patterns, run folders and
cards. Every item must match a system.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ktdeval.cards import no_match, split_patterns
from ktdeval.errors import UsageError
from ktdeval_compare.pairs.compared_cards import EntrantCard

Definitions = Mapping[str, Sequence[str]]  #: items in each cohort, by cohort name


def cohort_definitions(texts: Sequence[str]) -> dict[str, list[str]]:
    """Return the items in each cohort, by cohort name. Items that are given separately for the same
    cohort are merged. Raises UsageError if a string is not NAME=ITEM,….
    """
    definitions: dict[str, list[str]] = {}
    for text in texts:
        name, _, items = text.partition("=")
        listed = split_patterns(items)
        if not name.strip() or not listed:
            raise UsageError(
                f"--cohort {text!r}: give NAME=SYSTEMS, such as ML=qlib/* or LLM=RUN,RUN"
            )

        definitions.setdefault(name.strip(), []).extend(listed)

    return definitions


def item_path(item: str) -> Path | None:
    """Return the path of an item that is a run folder or a card, or None if the item is a system
    pattern.
    """
    path = Path(item)
    if item == "*" or not path.exists():
        return None
    return path


def is_of(entrant: EntrantCard, item: str) -> bool:
    """Return whether an item is the card's file, the card's run folder, or a pattern that matches
    the card's system.
    """
    path = item_path(item)
    if path is not None:
        return path.resolve() in (entrant.path.resolve(), entrant.run_folder.resolve())
    return entrant.system.matches(item)


def check_items(definitions: Definitions, entrants: Sequence[EntrantCard]) -> None:
    """Raise UsageError if an item matches no card. For a pattern, the message lists the known
    systems.
    """
    for name, items in definitions.items():
        for item in items:
            if any(is_of(entrant, item) for entrant in entrants):
                continue
            if item_path(item) is not None:
                raise UsageError(
                    f"--cohort {name}: {item} matches no given card; name run folders or cards "
                    "of trading tasks"
                )

            systems = [entrant.system for entrant in entrants]
            raise UsageError(no_match(item, systems, f"--cohort {name}"))
