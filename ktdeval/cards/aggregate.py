"""What a card says of all its episodes together, derived from its own episode entries and from nothing else.

`build_card` writes these parts and `validate_card` derives them again, so a reader can trust a headline without the records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from ktdeval.cards.cost import cost
from ktdeval.cards.episodes import PROVENANCES, STATUSES, USAGE_COUNTS
from ktdeval.cards.medians import aggregate
from ktdeval.cards.ranking import has_low_coverage, is_placebo, planned_steps, rankable
from ktdeval.jsonio import JsonValue

Entry = Mapping[str, JsonValue]

WEAK = {"limited", "few answers", "few guesses"}
"""Labels of a certificate whose bounds rest on too little to call a mask certified."""

DERIVED = ("attribution", "cost", "coverage", "decisions", "failures", "labels", "metrics", "orders", "rankable", "usage")
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
    decisions = sums((episode["decisions"] for episode in episodes), PROVENANCES)
    coverage = coverage_of(card, planned_steps(card), decisions["model"] + decisions["model_after_retry"])
    return {
        "attribution": _attribution(episodes),
        "cost": cost(episodes, card["cost"].get("price")),
        "coverage": coverage,
        "decisions": decisions,
        "failures": sums(episode["failures"] for episode in episodes),
        "labels": labels(card, coverage),
        "metrics": {
            name: {field: definition[field] for field in DEFINITION_FIELDS}
            | aggregate([episode["metrics"][name] for episode in episodes])
            for name, definition in card["metrics"].items()
        },
        "orders": {
            **sums((episode["orders"] for episode in episodes), ("submitted", *STATUSES)),
            "rules": sums(episode["orders"]["rules"] for episode in episodes),
        },
        "rankable": rankable(card, coverage),
        "usage": sums((episode["usage"] for episode in episodes), USAGE_COUNTS),
    }


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


def sums(counts: Iterable[Entry], names: Sequence[str] = ()) -> dict[str, int]:
    """Sums by name; with `names` exactly these, else every name that occurs."""
    totals: Counter[str] = Counter()
    for count in counts:
        totals.update({name: count[name] for name in (names or count)})
    return {name: totals[name] for name in (names or sorted(totals))}


def coverage_of(card: Entry, planned: int, decided: int) -> dict[str, JsonValue]:
    """The card's coverage.

    Args:
        card: has `episodes`, with their `steps`, and `missing_episodes`.
        planned: steps of the whole plan.
        decided: steps that the model decided.
    """
    finished: Sequence[Entry] = card["episodes"]
    return {
        "episodes_planned": len(finished) + len(card["missing_episodes"]),
        "episodes_finished": len(finished),
        "steps_planned": planned,
        "steps": sum(episode["steps"] for episode in finished),
        "steps_decided": decided,
    }


def _is_certified(certificate: Entry | None) -> bool:
    """Whether a mask was attacked in earnest: by a whole probe set, with answers that name something."""
    return certificate is not None and not WEAK & set(certificate["labels"])


def labels(card: Entry, coverage: Entry) -> list[str]:
    """What a reader must see before any figure. Only a card that can have a `certificate` is said to lack one."""
    uncertified = "certificate" in card and card["task"]["mask"] != "bright" and not _is_certified(card["certificate"]["value"])
    conditions = {
        "synthetic": card["snapshot"]["synthetic"],
        "placebo": is_placebo(card),
        "limited": card["limit"] is not None,
        "incomplete": bool(card["missing_episodes"]),
        "low coverage": has_low_coverage(coverage),
        "mask not certified": uncertified,
        "no adjustment factor": not card["snapshot"]["has_factor"],
    }
    return [label for label, holds in conditions.items() if holds]
