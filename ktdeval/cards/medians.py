"""A figure over several episodes: its median, with what is undefined counted and not hidden."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping

from ktdeval.jsonio import JsonValue

Entry = Mapping[str, JsonValue]


def aggregate(entries: Iterable[Entry]) -> dict[str, JsonValue]:
    """Median of a metric over episodes, with an interval.

    The interval is the interquartile range from two episodes on (linear between order statistics), and a single episode's own.
    Episodes where the metric is undefined are left out and counted by reason; where it is undefined in all, the value is null.
    """
    values: list[float] = []
    own: JsonValue = None
    reasons: Counter[str] = Counter()
    for entry in entries:
        if entry["value"] is None:
            reasons[entry["reason"]] += 1
        else:
            values.append(entry["value"])
            own = entry.get("interval")
    result: dict[str, JsonValue] = {"n": len(values), "undefined": dict(reasons)}
    if not values:
        return {**result, "value": None, "reason": "; ".join(sorted(reasons)) or "no finished episode"}
    result["value"] = statistics.median(values) + 0.0
    if len(values) > 1:
        low, _, high = statistics.quantiles(values, n=4, method="inclusive")
        result["interval"] = {"kind": "interquartile", "low": low + 0.0, "high": high + 0.0}
    elif own is not None:
        result["interval"] = own
    return result
