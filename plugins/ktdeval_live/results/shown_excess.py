"""Mean excess returns as they are read: at a year's pace only once a record spans a year.

Cards record means in per cent a year. A shorter record is shown over its own days instead
(`ktdeval.stats.yearly_return_problem`): the sum of its daily excess returns, which is the mean times
the number of days.
"""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from ktdeval.cards import UNDEFINED
from ktdeval.stats import yearly_return_problem
from ktdeval_live.results.card_labels import interval_text
from ktdeval_live.results.card_types import LiveCard, LiveInterval
from ktdeval_live.results.daily_results import EntryResult

_YEARLY_DIGITS = 1
_PLAIN_DIGITS = 2  # returns over a few days are small


@dataclass(frozen=True)
class ShownExcess:
    """A mean excess return as shown, in per cent. Without days, its mean is undefined."""

    interval: LiveInterval
    per: str  #: what the figure is over: `year`, or `10 days`
    no_year: str  #: why it is not at a year's pace; empty if it is

    @property
    def mean_text(self) -> str:
        """Mean in per cent."""
        if self.interval.mean is None:
            return UNDEFINED
        return f"{self.interval.mean:+.{self._digits}f}"

    @property
    def ends_text(self) -> str:
        """Both ends of the interval, in per cent."""
        if self.interval.mean is None:
            return UNDEFINED
        return interval_text(self.interval, self._digits)

    @property
    def _digits(self) -> int:
        return _PLAIN_DIGITS if self.no_year else _YEARLY_DIGITS


def shown_excess(interval: LiveInterval, span: int, days_a_year: int) -> ShownExcess:
    """Return a recorded mean, in per cent a year, as it is shown. `span` is the number of counted
    days of the record; days without a decision count in it, although no mean rests on them.

    Example:
        shown_excess(LiveInterval(n=10, mean=17.64), 10, 252).mean_text  # "+0.70", per 10 days
    """
    if interval.mean is None or interval.n is None:
        return ShownExcess(interval, UNDEFINED, "")

    problem = yearly_return_problem(span, float(days_a_year))
    if problem is None:
        return ShownExcess(interval, "year", "")

    share = interval.n / days_a_year
    plain = replace(
        interval,
        mean=interval.mean * share,
        low=_scaled(interval.low, share),
        high=_scaled(interval.high, share),
    )
    noun = "day" if interval.n == 1 else "days"
    return ShownExcess(plain, f"{interval.n} {noun}", problem)


def card_excess(card: LiveCard, interval: LiveInterval) -> ShownExcess:
    """Return one of a card's mean excess returns as it is shown."""
    return shown_excess(interval, card.days.counted, card.market.days_a_year)


def pair_span(one: EntryResult, other: EntryResult) -> int:
    """Return the number of days that count for both entries."""
    return int((one.counted & other.counted).sum())


def _scaled(end: float | None, share: float) -> float | None:
    """Return an end of an interval over the days; None if it does not exist yet."""
    if end is None:
        return None
    return end * share
