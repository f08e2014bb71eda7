"""Metrics: pure functions of a ledger and its market, with explicit formulas."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from ktdeval.errors import PluginError
from ktdeval.values.disk.files import csv_rows
from ktdeval.values.documents.strict_json import JsonValue
from ktdeval.values.documents.typed_json import joined_lines
from ktdeval.values.options.rules import RANGE, FilledText, Range as Range, is_range

if TYPE_CHECKING:
    from ktdeval.market.snapshots.snapshot import MarketSnapshot
    from ktdeval.trading.ledger import Ledger

#: if a paper's rule differs from the correct rule, both exist, and a card states which rule it used
RuleSet = Literal["strict", "paper"]
#: direction in which a metric is better; `neither` for descriptive metrics
Better = Literal["higher", "lower", "neither"]


NEVER = "never: "
"""Prefix of the reason why a figure is never reached. Such a figure is not missing: in rankings and
medians, it comes after every number.
"""


def never_in(times: int, of: int) -> str:
    """Return the reason why a median is never reached."""
    return f"never in {times:,} of {of:,} episodes"


def is_never(reason: str | None) -> bool:
    """Return whether a figure is undefined because it is never reached, either in one episode or in
    the median over several.
    """
    return reason is not None and reason.startswith((NEVER, "never in "))


@dataclass(frozen=True, slots=True)
class MetricValue:
    """A number, or the reason why it is undefined.

    Example:
        MetricValue(None, n=0, reason="no sells")
    """

    #: finite number; None if the metric is undefined for this ledger, or its value is `NEVER`
    #: reached
    value: float | None
    n: int  #: number of observations (days, steps, orders)
    reason: str | None = None  #: why `value` is None; None if there is a value
    detail: JsonValue = None  #: JSON value with the metric's details, such as calibration bins

    def __post_init__(self) -> None:
        if (self.value is None) == (self.reason is None) or self.reason == "":
            raise ValueError("a metric needs either a value or the reason why it has none")
        if self.value is not None and not abs(self.value) < float("inf"):
            raise ValueError("a metric's value must be finite; return None and a reason instead")


class Metric(Protocol):
    """A metric, as provided by a plugin."""

    name: FilledText  #: name of the metric on the card
    formula: (
        FilledText  #: identifier and formula, such as `sharpe/1: mean(r)/std(r, ddof=1)*sqrt(252)`
    )
    unit: FilledText  #: `fraction`, `per year`, `probability`, `count`, …
    range: Range  #: range of possible values, such as `(0.0, 1.0)`
    better: Better  #: which direction is better; `neither` for descriptive metrics
    source: FilledText  #: source of the definition
    headline: bool  #: whether the metric belongs to the ten-metric panel

    def compute(self, ledger: Ledger, market: MarketSnapshot, rules: RuleSet) -> MetricValue:
        """Return the metric for one episode. Never raises on a legal ledger, and never
        returns NaN.
        """


def range_problem(value: float | None, ends: Sequence[float | None]) -> str:
    """Return how a value violates its metric's range, or "". Deviations within rounding (1e-9
    relative to a bound, or 1e-12) are not violations.
    """
    low, high = ends
    low = -math.inf if low is None else low
    high = math.inf if high is None else high
    if value is None or low <= value <= high:
        return ""

    for end in (low, high):
        if math.isclose(value, end, rel_tol=1e-9, abs_tol=1e-12):
            return ""

    return f"{value} lies outside its range {low} … {high}"


_ARGUMENTS = ("ledger", "market", "rules", "transcript")
NO_TRANSCRIPT = "no transcript at hand"
"""Reason for a metric that reads conversations, if a card is made without transcripts."""


@dataclass(frozen=True, eq=False)
class RecordedTranscript:
    """Transcript of one episode, for metrics with a parameter `transcript`. A transcript is equal
    only to itself, so that a metric can cache results computed from it.

    Example:
        RecordedTranscript(lambda: entries).read()  # one TranscriptEntry a step
    """

    #: reads the entries from storage on each call, one entry per step
    read: Callable[[], Sequence[Any]]


@dataclass(slots=True)
class FunctionMetric:
    """A metric based on a function; for the fields, see `Metric`. `summary` is the first line of
    the function's docstring.
    """

    name: str
    formula: str
    unit: str
    range: Range
    better: Better
    source: str
    function: Callable[..., MetricValue | float | str]
    summary: str
    asks_for: tuple[str, ...]
    headline: bool = False
    transcript: RecordedTranscript | None = None  #: the episode's transcript; None if not available

    def of_transcript(self, transcript: RecordedTranscript) -> FunctionMetric:
        """Return the metric with an episode's transcript attached."""
        return replace(self, transcript=transcript)

    def compute(self, ledger: Ledger, market: MarketSnapshot, rules: RuleSet) -> MetricValue:
        """Return the metric for one episode."""
        arguments: dict[str, Any] = {"ledger": ledger, "market": market, "rules": rules}
        if "transcript" in self.asks_for:
            if self.transcript is None:
                return MetricValue(None, 0, NO_TRANSCRIPT)
            arguments["transcript"] = self.transcript

        result = self.function(**{name: arguments[name] for name in self.asks_for})
        if isinstance(result, MetricValue):
            return result

        n = len(ledger.steps)
        if isinstance(result, str):
            return MetricValue(None, n, result)
        if not hasattr(result, "__float__"):
            raise TypeError(
                f"it returned {type(result).__name__}; return a number, a text with the reason why"
                f" there is none, or a MetricValue"
            )

        return MetricValue(float(result) + 0.0, n)


def metric(
    name: str, *, formula: str, unit: str, better: Better, source: str, range: Range = (None, None)
) -> Callable[[Callable[..., Any]], FunctionMetric]:
    """Turn a function into a metric. The function may have the parameters `ledger`, `market`,
    `rules` and `transcript` (a `RecordedTranscript`), in any selection. It returns a number, a
    string that explains why there is no number, or a `MetricValue`. A plugin provides the metric
    with `return [function]` in its hook `ktdeval_metrics`. Raises PluginError if a field is empty
    or of the wrong type, or the function has any other parameter.

    Example:
        @metric("nav", formula="nav/1: NAV", unit="CNY", better="higher", source="mine")
        def nav(ledger):
            return ledger.steps[-1].nav_minor / 100
    """

    def of(function: Callable[..., Any]) -> FunctionMetric:
        where = f"metric {name or function.__name__}"
        texts = {"name": name, "formula": formula, "unit": unit, "source": source}
        for field, text in texts.items():
            if not isinstance(text, str) or not text.strip():
                raise PluginError(f"{where}: {field} is empty")

        if better not in ("higher", "lower", "neither"):
            raise PluginError(
                f"{where}: better must be 'higher', 'lower' or 'neither', was {better!r}"
            )
        if not is_range(range):
            raise PluginError(f"{where}: range must be {RANGE}")

        asks_for = tuple(inspect.signature(function).parameters)
        unknown = [argument for argument in asks_for if argument not in _ARGUMENTS]
        if unknown:
            raise PluginError(
                f"{where}: the function has an unknown parameter {unknown[0]!r}; allowed are"
                f" {', '.join(_ARGUMENTS)}"
            )

        summary = joined_lines(function.__doc__ or name).splitlines()[0]
        return FunctionMetric(
            name, formula, unit, range, better, source, function, summary, asks_for
        )

    return of


def built_in(function: Callable[..., Any]) -> FunctionMetric:
    """Turn a function into a built-in metric, using its row in `metrics.csv`."""
    return describe_metric(metric_rows()[function.__name__], function)


def describe_metric(row: Mapping[str, str], function: Callable[..., Any]) -> FunctionMetric:
    """Turn a function into a metric, using a table row with name, formula, unit, better, low, high,
    source and summary.
    """
    bounds = tuple(float(row[end]) if row[end] else None for end in ("low", "high"))
    texts = {field: row[field] for field in ("formula", "unit", "better", "source")}
    return replace(metric(row["name"], **texts, range=bounds)(function), summary=row["summary"])  # type: ignore[arg-type]


@cache
def metric_rows() -> dict[str, dict[str, str]]:
    """Return the rows of `metrics.csv`, which describe the built-in metrics, keyed by name."""
    return {row["name"]: row for row in csv_rows(Path(__file__).with_name("metrics.csv"))}
