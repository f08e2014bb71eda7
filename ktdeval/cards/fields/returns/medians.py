"""Figures for single episodes, and their medians over episodes."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, ClassVar, Protocol

from msgspec import UNSET, Meta, UnsetType

from ktdeval.cards.fields.base_types import (
    Count,
    Counts,
    Figure,
    Name,
    NonNegative,
    Number,
    Share,
    decode_part,
    strict_json,
)
from ktdeval.stats import intervals
from ktdeval.stats.metric import MetricValue, is_never, never_in
from ktdeval.values.documents.typed_json import Value

QUARTILES = "interquartile"
"""Name of quartiles in tables that show intervals, too."""


class Interval(Figure, Value, frozen=True, kw_only=True):
    """Interval for a figure of one episode, over its days. Its ends are null with a reason if there
    is none.
    """

    KEY: ClassVar[str] = "low"

    kind: Name  #: method by which it was computed, such as a bootstrap
    low: Number | None
    high: Number | None
    level: Annotated[float, Meta(gt=0, lt=1)] | UnsetType = UNSET  #: nominal coverage
    n: Count | UnsetType = UNSET  #: number of observations behind it
    #: mean block length of the resamples
    block_days: Annotated[int, Meta(ge=1)] | Annotated[float, Meta(ge=1)] | UnsetType = UNSET
    draws: Count | UnsetType = UNSET  #: resamples
    #: standard error of the less certain end due to the finite number of resamples, in the unit of
    #: the figure
    monte_carlo_se: NonNegative | UnsetType = UNSET
    #: measured fraction of simulated samples of this size in which it covers the truth
    coverage: Share | UnsetType = UNSET
    reason: Name | UnsetType = UNSET  #: why it has no ends

    @classmethod
    def of(cls, interval: intervals.Interval, field: str) -> Interval:
        """Return an interval in the form recorded on cards. `field` is the part of the card named
        in error messages.
        """
        return decode_part(field, interval.to_json(), cls)


class Quartiles(Figure, Value, frozen=True, kw_only=True):
    """First and third quartile over episodes: a description of the figures, not an interval for
    one. Null with a reason if an episode never reaches the figure.
    """

    KEY: ClassVar[str] = "low"

    low: Number | None
    high: Number | None
    reason: Name | UnsetType = UNSET  #: why they are missing

    @property
    def kind(self) -> str:
        """Kind of range, in a property with the same name as an interval's `kind`."""
        return QUARTILES


class OrderedFigure(Figure):
    """Figure that can be ordered, as a median requires."""

    __slots__ = ()
    value: Number | None

    @property
    def ordered(self) -> float | None:
        """Value used for sorting and for medians: infinite if the figure is never reached, None if
        it is undefined.
        """
        if self.value is None and self.reason is not UNSET and is_never(self.reason):
            return math.inf
        return self.value


class HasInterval(Protocol):
    """Figure that may have its own interval."""

    @property
    def interval(self) -> Interval | UnsetType | None:
        """The interval; unset or None if the figure lacks one."""


class OverEpisodes(OrderedFigure):
    """Figure over several episodes. It has quartiles, or the interval of the only episode."""

    __slots__ = ()
    quartiles: Quartiles | UnsetType
    interval: Interval | UnsetType


class Line(OverEpisodes, Value, frozen=True, kw_only=True):
    """A figure over all finished episodes."""

    value: Number | None  #: median over the episodes in which the figure is defined
    n: Count  #: number of episodes behind the median
    quartiles: Quartiles | UnsetType = UNSET  #: quartiles over episodes, if there are at least two
    interval: Interval | UnsetType = UNSET  #: interval of the only episode
    #: number of these in which the figure is never reached, which ranks after any number
    never: Count | UnsetType = UNSET
    undefined: Counts  #: finished episodes in which the figure is undefined, by reason
    reason: Name | UnsetType = UNSET


class EpisodeMetric(OrderedFigure, Value, frozen=True, kw_only=True):
    """A metric of one episode: a number, or null with a reason."""

    value: Number | None
    n: Count  #: number of observations (days, steps, orders, calls) behind the value
    interval: Interval | UnsetType = UNSET
    detail: Any = UNSET  #: the metric's table, such as calibration bins
    reason: Name | UnsetType = UNSET

    @classmethod
    def of(cls, value: MetricValue, interval: intervals.Interval | None = None) -> EpisodeMetric:
        """Return a computed metric in the form recorded on cards."""
        detail = UNSET if value.detail is None else strict_json("episodes", value.detail)
        if value.value is None:
            return cls(value=None, n=int(value.n), detail=detail, reason=value.reason or UNSET)

        spread = UNSET if interval is None else Interval.of(interval, "episodes")
        return cls(value=float(value.value), n=int(value.n), interval=spread, detail=detail)


def spread_of(
    figure: OverEpisodes | HasInterval,
) -> Quartiles | Interval | None:
    """Return the range that tables show next to a figure: its quartiles over episodes or its
    interval; None if it has neither.
    """
    if isinstance(figure, OverEpisodes) and figure.quartiles is not UNSET:
        return figure.quartiles
    return figure.interval or None


def aggregate(entries: Iterable[EpisodeMetric | Line]) -> Line:
    """Return the median of a metric over episodes. With two or more episodes it comes with
    quartiles, linearly interpolated between order statistics; with a single episode, it comes with
    that episode's interval.

    Episodes in which the metric is undefined are excluded and counted by reason; if the metric is
    undefined in every episode, the median is null. `never` does not mean undefined: an episode that
    never reaches the figure ranks after any number. If the median falls on such an episode, it is
    null, and its reason gives the number of such episodes.
    """
    defined: list[EpisodeMetric | Line] = []
    values: list[float] = []
    undefined: Counter[str] = Counter()
    for entry in entries:
        ordered = entry.ordered
        if ordered is None:
            undefined[str(entry.reason)] += 1
        else:
            defined.append(entry)
            values.append(ordered)

    if not defined:
        reason = "; ".join(sorted(undefined)) or "no finished episode"
        return Line(value=None, n=0, undefined=dict(undefined), reason=reason)

    values.sort()
    middle = statistics.median(values)
    times = sum(map(math.isinf, values))
    never = never_in(times, len(values))

    is_reached = not math.isinf(middle)
    quartiles: Quartiles | UnsetType = UNSET
    interval: Interval | UnsetType = UNSET
    if is_reached and len(values) > 1:
        quartiles = _quartiles(values, never)
    elif is_reached:
        interval = defined[0].interval

    return Line(
        value=middle + 0.0 if is_reached else None,
        n=len(values),
        quartiles=quartiles,
        interval=interval,
        never=times or UNSET,
        undefined=dict(undefined),
        reason=UNSET if is_reached else never,
    )


def _quartiles(ordered: Sequence[float], never: str) -> Quartiles:
    """Return the first and third quartiles. If either is never reached, both are null with the
    reason `never`.
    """
    low = _quartile(ordered, 1)
    high = _quartile(ordered, 3)
    if math.isfinite(low) and math.isfinite(high):
        return Quartiles(low=low + 0.0, high=high + 0.0)
    return Quartiles(low=None, high=None, reason=never)


def _quartile(ordered: Sequence[float], quarter: int) -> float:
    """Return a quartile, linearly interpolated between order statistics. For finite values it is
    bit-for-bit equal to the result of `statistics.quantiles`.
    """
    index, rest = divmod(quarter * (len(ordered) - 1), 4)
    if rest == 0:
        return ordered[index]
    return (ordered[index] * (4 - rest) + ordered[index + 1] * rest) / 4
