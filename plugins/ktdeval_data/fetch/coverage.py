"""Compare the days requested from a vendor with the days received, code by code.

A vendor may truncate a page, keep only a few days, or return nothing under load, all without an
error. Missing days are requested again. Days that are still missing cause an error or, with
`--accept-gaps`, a note in the snapshot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np
import pandas as pd

from ktdeval.errors import DataError
from ktdeval.market import DayArray, sessions
from ktdeval_raw_markets.assembly import listed_codes

LONGEST_HALT = 20
"""Maximum number of missing sessions at the end of a code's days that the halt of an A-share may
explain. Since 2018, exchanges limit most halts to ten sessions.
"""

_LATE = "first bars after the first day asked for"
_MAX_NAMED = 4


@dataclass(frozen=True)
class MissingSessions:
    """Sessions missing for a code."""

    code: str
    before: DayArray  #: missing before the first bar
    after: DayArray  #: missing after the last bar
    between: DayArray  #: missing between the first and the last bar
    first: str  #: day of the first bar
    last: str  #: day of the last bar


def expected_days(calendar: str, first: date, last: date) -> DayArray:
    """Return an exchange's sessions from `first` to `last`, or all days if it never closes. Empty
    if the calendar does not extend that far.
    """
    if calendar == "24/7":
        return np.arange(np.datetime64(first), np.datetime64(last) + 1)
    try:
        return sessions(str(first), str(last), calendar)
    except DataError:
        return np.empty(0, "datetime64[D]")


def days_in(table: pd.DataFrame) -> DayArray:
    """Return a table's days, ascending, without duplicates."""
    return np.unique(table["date"].dropna().to_numpy().astype("datetime64[D]"))


def missing_of(code: str, got: DayArray, expected: DayArray) -> MissingSessions:
    """Return the sessions in `expected` that a code lacks. `got`: the code's days, ascending, at
    least one.
    """
    absent = expected[~np.isin(expected, got)]
    before = absent[absent < got[0]]
    after = absent[absent > got[-1]]
    between = absent[(absent > got[0]) & (absent < got[-1])]

    return MissingSessions(code, before, after, between, str(got[0]), str(got[-1]))


def far_from(got: DayArray, expected: DayArray) -> DayArray:
    """Return the days in `expected` that are more than a week from every day in `got`, which is
    ascending.
    """
    after = got[np.searchsorted(got, expected).clip(max=len(got) - 1)]
    before = got[(np.searchsorted(got, expected, side="right") - 1).clip(min=0)]
    distance = np.minimum(np.abs(after - expected), np.abs(expected - before))

    return np.asarray(expected[distance > np.timedelta64(7, "D")])


def problems_of(missing: MissingSessions, listed: str) -> list[str]:
    """Return a message for each unexplained gap.

    A late first day is explained by the code's listing day. If the listing day is unknown, there is
    only a note (`late_starts`).
    """
    problems = []
    if listed:
        unexplained = missing.before[missing.before >= np.datetime64(listed)]
        if len(unexplained):
            lacking = f"({_session_count(unexplained)} missing)"
            problems.append(f"{missing.code} begins {missing.first}, listed {listed} {lacking}")

    if len(missing.after):
        problems.append(
            f"{missing.code} ends {missing.last} ({_session_count(missing.after)} missing)"
        )

    if len(missing.between):
        between = f"the first {missing.between[0]}"
        problems.append(
            f"{missing.code} lacks {_session_count(missing.between)} between, {between}"
        )

    return problems


def late_starts(all_missing: Sequence[MissingSessions], listed: Mapping[str, str]) -> list[str]:
    """Return notes on the codes whose bars begin after the first day requested."""
    late = [missing for missing in all_missing if len(missing.before)]
    dated = [f"{one.code} {one.first}" for one in late if listed.get(one.code)]
    undated = [f"{one.code} {one.first}" for one in late if not listed.get(one.code)]
    notes = []

    if dated:
        notes.append(f"{_LATE}, by their days of listing: {listed_codes(dated)}")

    if undated:
        notes.append(f"{_LATE}; the vendor names no day of listing: {listed_codes(undated)}")

    return notes


def settle(problems: Sequence[str], accepted: bool, asked: str, answers: str) -> list[str]:
    """Return a note that lists the gaps; empty without gaps.

    Raises DataError if gaps are not accepted.
    """
    if not problems:
        return []

    if not accepted:
        found = "; ".join(problems[:_MAX_NAMED])
        if len(problems) > _MAX_NAMED:
            found += f"; and {len(problems) - _MAX_NAMED} more"

        raise DataError(
            f"{asked}: days are missing: {found}. Delete {answers} to ask for them again,"
            " choose other days, leave the assets out, or keep the gaps, as a note of the snapshot,"
            " by --accept-gaps"
        )

    return [f"accepted gaps: {'; '.join(problems)}"]


def _session_count(days: DayArray) -> str:
    plural = "s" if len(days) != 1 else ""
    return f"{len(days):,} session{plural}"
