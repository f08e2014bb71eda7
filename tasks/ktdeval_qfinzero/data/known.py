"""When things about an event became known, and how it stood then."""

from __future__ import annotations

from dataclasses import replace

from ktdeval_qfinzero.data.rows import EventRow


def known_moments(row: EventRow) -> tuple[int, ...]:
    """The moments at which something about an event became known, ascending: its announcement, and each one with releases.

    What was released before the announcement became known with it.
    """
    return tuple(sorted({row.announced_ns, *(max(row.announced_ns, release.available_ns) for release in row.releases)}))


def as_known(row: EventRow, known_ns: int) -> EventRow:
    """The event with what was released by a moment."""
    return replace(row, releases=tuple(release for release in row.releases if release.available_ns <= known_ns))
