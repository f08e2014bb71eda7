"""Attribution: the linked components of the total return, as medians over episodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import UNSET, UnsetType

from ktdeval.cards.fields.base_types import Figure, Name, decode_part
from ktdeval.cards.fields.origin.recorded_facts import DerivationBasis, TradingFacts
from ktdeval.cards.fields.returns.medians import EpisodeMetric, Interval, Line, aggregate
from ktdeval.values.documents.typed_json import Value

METRIC = "selection_alpha"
"""Metric whose detail has all linked lines of the attribution (`linked`, with `intervals`)."""


class AttributionLines(Value, frozen=True):
    """Linked parts of the total return."""

    lines: dict[str, Line]


class Attribution(Figure, Value, frozen=True, kw_only=True):
    """Parts of the total return; null with a reason if no metric computed them."""

    value: AttributionLines | None
    reason: Name | UnsetType = UNSET


def derive_attribution(basis: DerivationBasis[TradingFacts]) -> Attribution:
    """Return the medians of the linked components recorded in the attribution metric's detail. The
    medians are taken over the episodes that count towards the card's figures.
    """
    metrics = [episode.metrics for episode in basis.facts.pooled]
    entries = [own[METRIC] for own in metrics if METRIC in own]
    if not entries:
        return _no_attribution(f"metric {METRIC} was not asked for")

    computed = [entry for entry in entries if entry.value is not None]
    if not computed:
        return _no_attribution("; ".join(sorted({str(entry.reason) for entry in entries})))

    names = _line_names(computed)
    if not names:
        return _no_attribution(f"metric {METRIC} has no linked lines in its detail")

    lines: dict[str, Line] = {}
    for name in names:
        lines[name] = aggregate(_linked_line(entry, name) for entry in entries)

    return Attribution(value=AttributionLines(lines=lines))


def _no_attribution(reason: str) -> Attribution:
    return Attribution(value=None, reason=reason)


def _line_names(entries: Sequence[EpisodeMetric]) -> list[str]:
    """Return the names of all linked components, in the order of first occurrence."""
    names: dict[str, None] = {}
    for entry in entries:
        names |= dict.fromkeys(_link_contributions(entry))
    return list(names)


def _linked_line(entry: EpisodeMetric, name: str) -> EpisodeMetric:
    """Return one linked component of an episode in the same form as a metric."""
    if entry.value is None:
        return entry

    value = _link_contributions(entry).get(name)
    if value is None:
        return EpisodeMetric(value=None, n=entry.n, reason="the episode has no such line")

    recorded = _detail(entry, "intervals").get(name)
    interval: Interval | UnsetType = UNSET
    if recorded is not None:
        interval = decode_part("attribution", recorded, Interval)

    return EpisodeMetric(value=value, n=entry.n, interval=interval)


def _link_contributions(entry: EpisodeMetric) -> dict[str, float]:
    lines = _detail(entry, "linked")
    return {name: value for name, value in lines.items() if isinstance(value, float)}


def _detail(entry: EpisodeMetric, name: str) -> Mapping[str, Any]:
    """Return a mapping from a metric's detail; empty if a third-party card has a different type
    there.
    """
    if not isinstance(entry.detail, Mapping):
        return {}

    part = entry.detail.get(name)
    return part if isinstance(part, Mapping) else {}
