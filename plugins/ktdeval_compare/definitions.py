"""Definitions of cohorts: which systems each has, by patterns, run folders and cards; every item must match one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ktdeval.cards import no_match, split_patterns
from ktdeval.errors import UsageError
from ktdeval_compare.entrants import Entrant

Definitions = Mapping[str, Sequence[str]]  #: Items of each cohort by its name


def cohort_definitions(texts: Sequence[str]) -> dict[str, list[str]]:
    """Items of each cohort by its name; one name twice joins. Raises UsageError: a text is not NAME=ITEM,…."""
    definitions: dict[str, list[str]] = {}
    for text in texts:
        name, _, items = text.partition("=")
        listed = split_patterns(items)
        if not name.strip() or not listed:
            raise UsageError(f"--cohort {text!r}: give NAME=SYSTEMS, such as ML=qlib/* or LLM=RUN,RUN")
        definitions.setdefault(name.strip(), []).extend(listed)
    return definitions


def item_path(item: str) -> Path | None:
    """Return the run folder or card that an item is; None where it is a pattern of systems."""
    path = Path(item)
    return path if item != "*" and path.exists() else None


def is_of(entrant: Entrant, item: str) -> bool:
    """Return whether an item is the run folder or file of a card, or a pattern that its system matches."""
    path = item_path(item)
    if path is not None:
        return path.resolve() in (entrant.path.resolve(), entrant.run_folder.resolve())
    return entrant.system.matches(item)


def check_items(definitions: Definitions, entrants: Sequence[Entrant]) -> None:
    """Refuse an item that no card is of. Raises UsageError: names it, and the systems that there are."""
    for name, items in definitions.items():
        for item in items:
            if any(is_of(entrant, item) for entrant in entrants):
                continue
            if item_path(item) is not None:
                raise UsageError(f"--cohort {name}: no card given is of {item}; name run folders or cards of trading tasks")
            raise UsageError(no_match(item, (entrant.system for entrant in entrants), f"--cohort {name}"))
