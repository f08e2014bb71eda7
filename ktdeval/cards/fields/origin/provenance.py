"""Provenance of a card: when and where the card was made, and from which calls. It may differ
between two otherwise equal runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime

from msgspec import UnsetType

from ktdeval.cards.fields.base_types import Problem
from ktdeval.cards.fields.origin.anchor_fact import anchor_rows
from ktdeval.cards.fields.origin.fact_types import Provenance
from ktdeval.cards.fields.origin.recorded_facts import AnyFacts
from ktdeval.cards.fields.replies.calls import call_count_rows, call_problems
from ktdeval.cards.table_types import Row

LIBRARIES = ("numpy", "pandas", "pyarrow", "scipy", "zstandard")
"""Software whose versions are on every card."""

_VERSION = re.compile(
    r"(?P<release>\d{1,6}(\.\d{1,6}){0,5})"
    r"((a|b|rc)\d{1,6})?(\.post\d{1,6})?(\.dev\d{1,6})?(\+[a-z0-9]+([.-][a-z0-9]+)*)?",
    re.ASCII,
)
"""A package version (PEP 440, in its canonical form)."""

_REVISION = re.compile(r"[0-9a-f]{40}", re.ASCII)


# ---- checks


def made_at(provenance: Provenance) -> datetime | None:
    """Return when a card was made, in UTC; None if the card does not say."""
    try:
        moment = datetime.fromisoformat(provenance.created_at)
    except ValueError:
        return None
    if moment.tzinfo is None:
        return moment.replace(tzinfo=UTC)
    return moment.astimezone(UTC)


def provenance_problems(provenance: Provenance, facts: AnyFacts) -> Iterator[Problem]:
    """Yield problems for call counts that contradict each other or the episodes, and for impossible
    times and versions.
    """
    where = ("provenance",)
    calls = provenance.calls
    if calls is not None:
        yield from call_problems(calls, {episode.id: episode.usage for episode in facts.episodes})

    is_asked = facts.request_settings is not None
    if is_asked and calls is None:
        yield (*where, "calls"), "is null, though the model is one behind a network"
    elif calls is not None and not is_asked:
        yield (*where, "calls"), "are counted, though sent_as is that of no provider"

    if made_at(provenance) is None:
        yield (*where, "created_at"), "is not a time (ISO 8601)"

    if not is_version(provenance.suite_version):
        yield (*where, "suite_version"), "is not a version, such as 0.1.0"

    revision = provenance.source_revision
    if revision is not None and not _REVISION.fullmatch(revision):
        yield (*where, "source_revision"), "is not a revision of the source (40 hexadecimal digits)"

    for name, value in provenance.environment.items():
        if not isinstance(value, str) or not value.strip():
            yield (*where, "environment", name), "is not a version, platform or plugin"


def is_version(text: str) -> bool:
    """Return whether a string is a valid package version (PEP 440)."""
    return _VERSION.fullmatch(text) is not None


def unknown_version(provenance: Provenance, installed: str) -> str | None:
    """Return why the installed suite can't check a card made by a later version; None if the suite
    can check it.
    """
    made_by = _release(provenance.suite_version)
    own = _release(installed)
    if made_by is None or own is None or made_by <= own:
        return None
    return (
        f"provenance.suite_version: {provenance.suite_version} is later than the installed ktdeval"
        f" {installed}, which can't check it; use that version, or a later one"
    )


def _release(version: str) -> tuple[int, ...] | None:
    """Return the release numbers of a version without trailing zeros; None if the string is not a
    version.
    """
    match = _VERSION.fullmatch(version)
    if match is None:
        return None

    numbers = [int(part) for part in match["release"].split(".")]
    while numbers and numbers[-1] == 0:
        numbers.pop()

    return tuple(numbers)


# ---- wording


def provenance_rows(provenance: Provenance, facts: AnyFacts) -> Iterator[Row]:
    """Yield the rows on calls to the provider, and on anchors."""
    if provenance.calls is not None:
        yield from call_count_rows(provenance.calls)
    if not isinstance(provenance.anchors, UnsetType):
        yield from anchor_rows(provenance.anchors)
