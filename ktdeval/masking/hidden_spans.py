"""Spans of a text that a mask hides, and the choice between overlapping spans."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from datetime import date
from typing import NamedTuple

COMPANY = "[company]"
PERSON = "[person]"
PRODUCT = "[product]"
PLACE = "[place]"
TERM = "[term]"
EVENT = "[event]"


# a tuple: it is sortable and created for each word in each document
class Hidden(NamedTuple):
    """A span of a text that a mask hides. It refers to assets, to an industry or to a day, or has
    no handle.
    """

    start: int
    end: int
    kind: str  #: `asset`, `industry` or `date`
    assets: frozenset[int] = frozenset()  #: columns of the assets to which the span may refer
    industry: str = ""
    is_derived: bool = False  #: whether the span is a derived short name of the assets
    day: date | None = None  #: the date, if day, month and year are all known
    noun: str = COMPANY  #: noun shown if there is no handle; only companies and dates have handles


def bounds(span: Hidden) -> tuple[int, int, bool, bool, list[int]]:
    """Return the sort key of a span. Spans with different meanings have different keys."""
    is_noun = span.noun != COMPANY
    return span.start, span.end, span.is_derived, is_noun, sorted(span.assets)


def longest(spans: Iterable[Hidden]) -> list[Hidden]:
    """Return non-overlapping spans. Of several overlapping spans, the longest is kept (ties: the
    first). Overlapping spans for the same asset are merged.
    """
    joined: list[Hidden] = []
    for span in sorted(spans, key=bounds):
        last = joined[-1] if joined else None
        if (
            last is not None
            and span.start < last.end
            and span.assets == last.assets
            and span.kind == last.kind == "asset"
        ):
            joined[-1] = _join_spans(last, span)
        else:
            joined.append(span)

    chosen: list[Hidden] = []
    for span in sorted(joined, key=lambda hidden: (hidden.start - hidden.end, hidden.start)):
        if _overlaps_none(span, chosen):
            insort(chosen, span)

    return chosen


def _join_spans(first: Hidden, second: Hidden) -> Hidden:
    """Join two spans. The result has the meaning of the longer span; on a tie, the meaning of the
    span for a company.
    """
    longer = max(first, second, key=lambda span: (span.end - span.start, span.noun == COMPANY))
    return longer._replace(start=first.start, end=max(first.end, second.end))


def disjoint(spans: Iterable[Hidden], others: list[Hidden]) -> list[Hidden]:
    """Return the spans that do not overlap any of `others`, which must be sorted and disjoint."""
    return [span for span in spans if _overlaps_none(span, others)]


def _overlaps_none(span: Hidden, others: list[Hidden]) -> bool:
    after = bisect_left(others, span.start, key=lambda other: other.start)
    return (not after or others[after - 1].end <= span.start) and (
        after == len(others) or others[after].start >= span.end
    )
