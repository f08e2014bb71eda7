"""Market of a card: the snapshot that its episodes ran on."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ktdeval.cards.fields.base_types import strict_json
from ktdeval.cards.fields.card_inputs import CardSources
from ktdeval.cards.fields.fact_types import SnapshotPart
from ktdeval.cards.fields.recorded_facts import AnyFacts
from ktdeval.errors import CardError
from ktdeval.market.snapshots.snapshot import DayArray, MarketSnapshot
from ktdeval.market.sources.writing_systems import unnamed_scripts
from ktdeval.values.typed_json import from_plain


def gather_market(sources: CardSources) -> SnapshotPart | None:
    """Return the market of a card, with the units of its trading days; None without one."""
    snapshot = sources.inputs.snapshot
    return None if snapshot is None else gather_snapshot(snapshot, sources.days.values())


def gather_snapshot(snapshot: MarketSnapshot, days: Iterable[DayArray]) -> SnapshotPart:
    """Return a market as cards describe it, with the units of these trading days."""
    meta = snapshot.meta
    fields = {
        "id": snapshot.id,
        "name": meta.name,
        "source": meta.source,
        "synthetic": meta.synthetic,
        "has_factor": meta.has_factor,
        "repairs": meta.repairs,
        "benchmark": meta.benchmark or "none",
        "benchmark_name": snapshot.index_names.get(meta.benchmark, meta.benchmark) or "no index",
        "assets": len(snapshot.codes),
        "first_day": str(snapshot.days[0]),
        "last_day": str(snapshot.days[-1]),
    }
    if meta.placebo:
        fields["placebo"] = True

    if snapshot.documents.table is not None and not snapshot.documents.entities:
        fields["documents"] = "no entity list"

    scripts = unnamed_scripts(snapshot)
    if scripts:
        fields["unnamed_scripts"] = scripts

    spans = list(days)
    all_days = np.concatenate(spans) if spans else snapshot.days
    fields["venues"] = sorted(snapshot.rules)
    fields |= snapshot.units_of(all_days)

    return from_plain(strict_json("snapshot", fields), SnapshotPart, "card", CardError)


def market_text(snapshot: SnapshotPart | None, facts: AnyFacts) -> str:
    """Return words that name the market; empty without one."""
    if snapshot is None:
        return ""
    return f"{snapshot.name}, {snapshot.assets} assets, id {snapshot.id[:12]}"
