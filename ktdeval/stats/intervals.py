"""Intervals: two ends, how they were made, and how often that covers the truth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ktdeval.jsonio import JsonValue


@dataclass(frozen=True, slots=True)
class Interval:
    """An interval, or the reason why there is none.

    Attributes:
        low, high: the ends, in the unit of the figure; None when there is no interval.
        level: nominal coverage, such as 0.95.
        kind: how it was made, in words.
        n: how many observations it rests on.
        block_days: mean block length of the resamples, where there were any.
        draws: how many resamples, where there were any.
        coverage: share of simulated samples of about this size in which this kind of interval covered the truth; the
            lowest over the processes simulated. None where it was not measured.
        reason: why there is no interval.
    """

    low: float | None
    high: float | None
    level: float
    kind: str
    n: int
    block_days: float | None = None
    draws: int | None = None
    coverage: float | None = None
    reason: str | None = None

    def __post_init__(self) -> None:
        if (self.low is None) != (self.high is None) or (self.low is None) == (self.reason is None):
            raise ValueError("an interval has two ends, or none and the reason why")
        if self.low is not None and self.high is not None and not -float("inf") < self.low <= self.high < float("inf"):
            raise ValueError("the ends of an interval are finite and in order")

    def transformed(self, function: Callable[[float], float]) -> Interval:
        """Return the interval of an increasing function of the figure."""
        if self.low is None or self.high is None:
            return self
        return replace(self, low=function(self.low), high=function(self.high))

    def to_json(self) -> dict[str, JsonValue]:
        """Return the interval as a JSON object; without ends it holds nulls and the reason."""
        fields: dict[str, JsonValue] = {"low": self.low, "high": self.high, "level": self.level, "kind": self.kind, "n": self.n}
        optional = {
            "block_days": self.block_days, "draws": self.draws, "coverage": self.coverage, "reason": self.reason,
        }  # fmt: skip
        return fields | {name: value for name, value in optional.items() if value is not None}


def no_interval(reason: str, n: int, level: float = 0.95) -> Interval:
    """An interval that could not be made, and why."""
    return Interval(None, None, level, "none", n, reason=reason)
