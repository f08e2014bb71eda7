"""What a card says of all its episodes together, derived from its own episode entries and from nothing else.

`build_card` writes these parts and `validate_card` derives them again, so a reader can trust a headline without the records.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from ktdeval.cards.episodes import PROVENANCES, STATUSES
from ktdeval.jsonio import JsonValue

Entry = Mapping[str, JsonValue]

DERIVED = ("attribution", "coverage", "decisions", "failures", "labels", "metrics", "orders", "usage")
"""The fields of a card that `derived_fields` gives."""

_ATTRIBUTION_METRIC = "selection_alpha"
"""The metric whose detail holds all linked lines of the attribution (`linked`, and `intervals` of them)."""

DEFINITION_FIELDS = ("better", "formula", "headline", "range", "source", "unit")


def derived_fields(card: Entry) -> dict[str, JsonValue]:
    """The fields named in `DERIVED`, from the other fields of the card and the definitions of its metrics.

    Args:
        card: a card whose `metrics` hold at least `DEFINITION_FIELDS`.
    """
    episodes: Sequence[Entry] = card["episodes"]
    decisions = _sums((episode["decisions"] for episode in episodes), PROVENANCES)
    steps = sum(decisions.values())
    coverage: dict[str, JsonValue] = {
        "episodes_planned": len(episodes) + len(card["missing_episodes"]),
        "episodes_finished": len(episodes),
        "steps": steps,
        "steps_decided": decisions["model"] + decisions["model_after_retry"],
    }
    usage_fields = ("input_tokens", "output_tokens", "tool_calls", "tool_calls_valid", "submissions")
    return {
        "attribution": _attribution(episodes),
        "coverage": coverage,
        "decisions": decisions,
        "failures": _sums(episode["failures"] for episode in episodes),
        "labels": _labels(card),
        "metrics": {
            name: {field: definition[field] for field in DEFINITION_FIELDS}
            | aggregate([episode["metrics"][name] for episode in episodes])
            for name, definition in card["metrics"].items()
        },
        "orders": {
            **_sums((episode["orders"] for episode in episodes), ("submitted", *STATUSES)),
            "rules": _sums(episode["orders"]["rules"] for episode in episodes),
        },
        "usage": _sums((episode["usage"] for episode in episodes), usage_fields),
    }


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


def _attribution(episodes: Sequence[Entry]) -> dict[str, JsonValue]:
    """Medians of the linked lines that the attribution metrics left in their detail."""
    entries = [episode["metrics"].get(_ATTRIBUTION_METRIC) for episode in episodes]
    known = [entry for entry in entries if entry is not None]
    if not known:
        return {"value": None, "reason": f"metric {_ATTRIBUTION_METRIC} was not asked for"}
    computed = [entry for entry in known if entry["value"] is not None]
    if not computed:
        return {"value": None, "reason": "; ".join(sorted({entry["reason"] for entry in known}))}
    names = dict.fromkeys(name for entry in computed for name in _numbers(entry, "linked"))
    if not names:
        return {"value": None, "reason": f"metric {_ATTRIBUTION_METRIC} has no linked lines in its detail"}
    return {"value": {"lines": {name: aggregate(_line(entry, name) for entry in known) for name in names}}}


def _line(entry: Entry, name: str) -> Entry:
    """One linked line of one episode, shaped as a metric."""
    if entry["value"] is None:
        return entry
    value = _numbers(entry, "linked").get(name)
    if value is None:
        return {"value": None, "n": entry["n"], "reason": "the episode has no such line"}
    interval = _part(entry, "intervals").get(name)
    return {"value": value, "n": entry["n"]} | ({} if interval is None else {"interval": interval})


def _part(entry: Entry, name: str) -> Entry:
    """A mapping in a metric's detail; empty where a foreign card has something else there."""
    detail = entry.get("detail")
    part = detail.get(name) if isinstance(detail, Mapping) else None
    return part if isinstance(part, Mapping) else {}


def _numbers(entry: Entry, name: str) -> dict[str, float]:
    return {key: value for key, value in _part(entry, name).items() if isinstance(value, float)}


def _sums(counts: Iterable[Entry], names: Sequence[str] = ()) -> dict[str, int]:
    """Sums by name; with `names` exactly these, else every name that occurs."""
    totals: Counter[str] = Counter()
    for count in counts:
        totals.update({name: count[name] for name in (names or count)})
    return {name: totals[name] for name in (names or sorted(totals))}


def _labels(card: Entry) -> list[str]:
    """What a reader must see before any figure."""
    conditions = {
        "synthetic": card["snapshot"]["synthetic"],
        "limited": card["limit"] is not None,
        "incomplete": bool(card["missing_episodes"]),
        "mask not certified": card["task"]["mask"] != "bright" and card["certificate"]["value"] is None,
        "no adjustment factor": not card["snapshot"]["has_factor"],
    }
    return [label for label, holds in conditions.items() if holds]
