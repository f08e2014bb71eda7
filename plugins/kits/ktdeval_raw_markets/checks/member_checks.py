"""Checks of index members: membership intervals, bars, and the number of members per day."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ktdeval.market import BoolArray, DayArray
from ktdeval.values import Finding
from ktdeval_raw_markets.checks.findings import finding_of
from ktdeval_raw_markets.sources.raw_tables import RawMarket, as_days, membership

LOOKBACK_DAYS = 252
"""Days of the longest factor window. The first year of data is used only for look-backs: an asset
that lacks prices there can't be traded or held then.
"""
INDEX_SIZES = {"000300.SH": 300, "000016.SH": 50, "000905.SH": 500, "000852.SH": 1000}
#: a universe whose size differs from the index's size by more than this fraction is not its
#: universe
FAR_FROM_NOMINAL = 0.1
ACCEPT_MEMBER_COUNT = "accept_member_count"


def check_member_intervals(raw: RawMarket) -> Iterator[Finding]:
    """Find memberships that end before they begin, and overlapping memberships of the same
    asset.
    """
    members = raw.members.sort_values(["code", "first"], kind="stable")
    codes = members["code"].to_numpy(dtype=object)
    first = as_days(members["first"])
    last = as_days(members["last"])
    reversed_ = np.flatnonzero(last < first)
    examples = (f"{codes[row]} {first[row]}…{last[row]}" for row in reversed_)
    yield finding_of("membership_reversed", len(reversed_), examples)
    overlap = np.flatnonzero((codes[1:] == codes[:-1]) & (first[1:] <= last[:-1]))
    examples = (
        f"{codes[row]} {first[row]}…{last[row]} and {first[row + 1]}…{last[row + 1]}"
        for row in overlap
    )
    yield finding_of("membership_overlaps", len(overlap), examples)


def check_members(raw: RawMarket) -> Iterator[Finding]:
    """Find members without prices, membership days outside an asset's bars, and days on which the
    number of members differs from the index size.
    """
    table = raw.table
    days = raw.table.days
    member = membership(raw.members, days, raw.codes)
    priced_columns = np.bincount(table.column[table.traded]).nonzero()[0].tolist()
    priced = {table.codes[column] for column in priced_columns}
    unpriced = np.array([code not in priced for code in raw.codes])

    lookback = LOOKBACK_DAYS if len(days) > LOOKBACK_DAYS else 0
    later = unpriced & member[lookback:].any(axis=0)
    spans = _spans(member, later, raw.codes, days)
    yield finding_of("unpriced_members", int(later.sum()), spans)

    early = unpriced & member.any(axis=0) & ~later
    spans = _spans(member, early, raw.codes, days)
    yield finding_of("unpriced_members_in_lookback", int(early.sum()), spans, LOOKBACK_DAYS)

    yield _unrecorded_member_days(raw, member & ~unpriced & raw.has_members)
    yield from _check_member_counts(raw, member.sum(axis=1), lookback)


def _check_member_counts(raw: RawMarket, counts: np.ndarray, lookback: int) -> Iterator[Finding]:
    """Find days on which the number of members differs from the size of the benchmark index."""
    expected = INDEX_SIZES.get(raw.benchmark)
    if expected is None:
        return

    days = raw.table.days
    is_accepted = any(repair.startswith(ACCEPT_MEMBER_COUNT) for repair in raw.repairs)
    is_far = np.abs(counts - expected) > FAR_FROM_NOMINAL * expected
    is_far &= np.arange(len(days)) >= lookback
    is_far &= raw.has_members and not is_accepted

    for kind, odd in (
        ("member_count_far", is_far),
        ("member_count", (counts != expected) & ~is_far),
    ):
        rows = np.flatnonzero(odd)
        examples = (f"{days[row]}: {counts[row]}" for row in rows)
        yield finding_of(kind, len(rows), examples, expected)


def _spans(
    member: BoolArray, chosen: BoolArray, codes: tuple[str, ...], days: DayArray
) -> Iterator[str]:
    """Yield `600519.SH member 2020-01-02…2024-12-31` for each chosen column."""
    for column in np.flatnonzero(chosen).tolist():
        rows = np.flatnonzero(member[:, column])
        yield f"{codes[column]} member {days[rows[0]]}…{days[rows[-1]]}"


def _unrecorded_member_days(raw: RawMarket, member: BoolArray) -> Finding:
    """Find days on which an asset is a member before its first bar (not yet listed) or after its
    last (delisted). Missing days between these two bars are reported as `gaps`.
    """
    table = raw.table
    column_of = {code: column for column, code in enumerate(raw.codes)}
    columns = np.array([column_of[code] for code in table.codes], dtype=np.int64)
    starts = np.flatnonzero(table.new_code)
    first = table.row[starts]
    last = table.row[np.append(starts[1:], len(table.row)) - 1]
    outside = member.copy()
    rows = np.arange(len(table.days))[:, None]
    outside[:, columns] &= (rows < first) | (rows > last)
    where = np.argwhere(outside)

    return finding_of(
        "unrecorded_member_days",
        len(where),
        (f"{raw.codes[int(column)]} {table.days[row]}" for row, column in where),
    )
