"""Market of a card: the snapshot that its episodes ran on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np
from msgspec import UNSET, UnsetType

from ktdeval.cards.fields.basics import Count, Day, Name, Sha256, strict_json
from ktdeval.cards.fields.words import Words
from ktdeval.cards.table import Row
from ktdeval.errors import CardError
from ktdeval.market.scripts import Script, unnamed_scripts
from ktdeval.market.snapshot import DayArray, MarketSnapshot
from ktdeval.values.typed import Value, from_plain


class SnapshotPart(Value, frozen=True, kw_only=True):
    """Market."""

    id: Sha256  #: SHA-256 over the snapshot's canonical content
    name: Name
    source: str
    synthetic: bool
    has_factor: bool
    repairs: list[str]
    benchmark: Name  #: code of the index; `none` where the market has none
    benchmark_name: Name
    assets: Count
    first_day: Day
    last_day: Day
    #: where the market was made from another one, without anything to select
    placebo: Literal[True] | UnsetType = UNSET
    #: where texts have no list of words that give assets away
    documents: Literal["no entity list"] | UnsetType = UNSET
    #: where texts are in scripts in which most assets have no name
    unnamed_scripts: list[Script] | UnsetType = UNSET
    venues: list[Name]  #: names of the rules that its assets trade under
    currency: Name
    minor_per_unit: Count  #: minor units, in which money is counted, in a unit of the currency
    days_a_year: Count  #: days that annualised figures count with

    @property
    def is_placebo(self) -> bool:
        """Whether the market was made from another one so that true selection is zero by
        construction.
        """
        return self.placebo is True

    @property
    def has_plain_texts(self) -> bool:
        """Whether its documents come without a list of words that give assets away."""
        return self.documents == "no entity list"

    @property
    def has_unnamed_scripts(self) -> bool:
        """Whether its documents hold a script in which most assets have no name."""
        return self.unnamed_scripts is not UNSET


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


def market_row(snapshot: SnapshotPart) -> Row:
    """Return the row that names the market."""
    return WORDS[
        "snapshot"
    ].label, f"{snapshot.name}, {snapshot.assets} assets, id {snapshot.id[:12]}"


WORDS = {
    "snapshot": Words(
        "market",
        "",
        "the market: id (SHA-256 over content), whether it is synthetic or a placebo, whether it"
        " has adjustment factors, benchmark; name, source and repairs made at import are labels"
        " and no part of the id",
    ),
}
