"""Windows after the end of an entrant's training data, and the effect size detectable in so short a
period. Only these windows determine the entrant's rank in a division with `fresh: true`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

import numpy as np

from ktdeval.cards import listed_cutoff, parse_cutoff, recorded_cutoff
from ktdeval.stats import normal_effect
from ktdeval_board.board_entries import BoardEntry
from ktdeval_board.document_types import rounded_or_none
from ktdeval_board.ranking.daily_summaries import SeriesFacts, Vector
from ktdeval_board.rules import Division, Rules

LEVEL = 0.05
POWER = 0.8

NOT_KNOWN = (
    "the end of its training data is not listed: add it to cutoffs in board.yaml, with a page "
    "and a day"
)
ONLY_A_BOUND = (
    "the list has only a lower bound for the end of its training data: add the end to cutoffs in "
    "board.yaml, with a page and a day"
)


class FreshFacts(TypedDict):
    """Facts about a division's fresh windows: those that lie after the end of an entrant's training
    data.
    """

    cutoff: str  #: day, month, `none` (nothing was trained) or `unknown`
    source: str  #: source of the cutoff
    windows: int  #: number of windows that begin after the cutoff
    of_windows: int
    days: int  #: number of trading days in these windows
    of_days: int
    #: selection over all fresh days, as a fraction of the NAV, that a test of the daily mean would
    #: detect (significance level 5 %, power 80 %); None where undefined
    detectable: float | None
    detectable_reason: str | None


@dataclass(frozen=True)
class KnownUntil:
    """The latest date up to which an entrant's models may have seen data in training."""

    cutoff: str  #: day, month, `none` or `unknown`
    source: str
    last_day: np.datetime64 | None  #: None if nothing was trained, or if the date is unknown

    def is_before(self, first_day: str) -> bool:
        """Return whether a window that begins on this day lies after all training data."""
        if self.cutoff == "none":
            return True

        return self.last_day is not None and bool(np.datetime64(first_day) > self.last_day)


def known_until(entry: BoardEntry, rules: Rules) -> KnownUntil:
    """Return the end of an entrant's training data: the latest date among its models.

    The date comes from the board's list or, failing that, from the suite's list. A later date from
    the submitter or the card takes precedence, so a claim can never gain a window.
    """
    models = [entry.model, *(further.name for further in entry.card.further_models)]
    listed = [_read_listed_cutoff(model, rules) for model in models]
    for each in listed:
        if each.cutoff == "unknown":
            return each

    said = [*listed, *_list_claims(entry)]
    dated = [each for each in said if each.last_day is not None]
    if not dated:
        return listed[0]

    return max(dated, key=_last_day)


def _last_day(known: KnownUntil) -> np.datetime64:
    assert known.last_day is not None
    return known.last_day


def _read_listed_cutoff(model: str, rules: Rules) -> KnownUntil:
    """Return the end of one model's training data, from the board's list or, failing that, from the
    suite's list.
    """
    own = rules.cutoff_of(model)
    if own is not None:
        return _parse_cutoff(own.cutoff, f"{own.source} ({own.as_of})")

    # The model's arguments are not used, since they are only claims on the card.
    listed = listed_cutoff(model, {})
    if listed == "unknown":
        return KnownUntil("unknown", NOT_KNOWN, None)
    if listed == "none":
        return KnownUntil("none", "a rule of this suite, without training data", None)
    if listed.is_lower_bound:
        return KnownUntil("unknown", ONLY_A_BOUND, None)

    return _parse_cutoff(listed.date, listed.source)


def _list_claims(entry: BoardEntry) -> list[KnownUntil]:
    """Return the cutoffs claimed by the submitter and by the card."""
    claims = []
    model = entry.submission.model
    if model.cutoff_day is not None:
        claims.append(_parse_cutoff(model.cutoff_day, f"the submitter: {model.cutoff_source}"))

    recorded = recorded_cutoff(entry.card)
    if recorded is not None:
        claims.append(_parse_cutoff(recorded.date, f"the card: {recorded.source}"))

    return claims


def _parse_cutoff(cutoff: str, source: str) -> KnownUntil:
    if cutoff == "none":
        return KnownUntil("none", source, None)

    return KnownUntil(cutoff, source, parse_cutoff(cutoff).last)


def counted_windows(entry: BoardEntry, division: Division, rules: Rules) -> tuple[str, ...]:
    """Return the names of the windows that count for an entry.

    For an entrant in a division with fresh windows, only windows that begin after the end of its
    training data count. In all other cases, all windows count; a baseline has no rank anyway.
    """
    if not division.fresh or entry.baseline is not None:
        return tuple(division.window_names())

    known = known_until(entry, rules)
    return tuple(window.name for window in division.windows if known.is_before(window.first))


def why_not_fresh(entry: BoardEntry, rules: Rules, windows: Sequence[str]) -> str:
    """Return why an entrant has no rank if none of `windows` begins after the end of its training
    data.
    """
    known = known_until(entry, rules)
    if known.cutoff == "unknown":
        return known.source

    which = "no window is"
    if len(windows) == 1:
        which = f"window {windows[0]} is not"

    return f"{which} later than its training data, which end on {known.cutoff} ({known.source})"


def fresh_facts(
    entry: BoardEntry, division: Division, rules: Rules, series: SeriesFacts | None
) -> FreshFacts:
    """Return the windows after the end of an entrant's training data, and the effect size
    detectable in those windows.
    """
    known = known_until(entry, rules)
    fresh = counted_windows(entry, division, rules)
    after = set(fresh)
    days = {window.name: window.days for window in entry.card.windows}
    detectable = _detectable_selection(fresh, series)
    facts: FreshFacts = {
        "cutoff": known.cutoff,
        "source": known.source,
        "windows": len(fresh),
        "of_windows": len(division.windows),
        "days": sum(count for name, count in days.items() if name in after),
        "of_days": sum(days.values()),
        "detectable": None,
        "detectable_reason": None,
    }
    if isinstance(detectable, str):
        facts["detectable_reason"] = detectable
    else:
        facts["detectable"] = rounded_or_none(detectable)

    return facts


def _detectable_selection(windows: Sequence[str], series: SeriesFacts | None) -> float | str:
    """Return the selection over all days of the windows that a z-test of the daily mean would
    detect with power `POWER` at significance level `LEVEL`: `(z_0.975 + z_0.8) * sd * sqrt(n)`. If
    it is undefined, return the reason instead.
    """
    if not windows:
        return "no window is later than the training data"
    if series is None:
        return "the board has not executed its records"

    daily = _mean_over_seeds(windows, series)
    if len(daily) < 2 or not np.isfinite(daily).all():
        return "daily selection is not defined on all days"

    sd = float(np.std(daily, ddof=1))
    return normal_effect(sd, len(daily), LEVEL, POWER) * len(daily)


def _mean_over_seeds(windows: Sequence[str], series: SeriesFacts) -> Vector:
    """Return the [n] daily selection over the concatenated windows, averaged over seeds."""
    parts = []
    for name in windows:
        of_window = [days.selection for (window, _), days in series.daily.items() if window == name]
        if of_window:
            parts.append(np.mean(of_window, axis=0))

    if not parts:
        return np.empty(0)

    return np.concatenate(parts)
