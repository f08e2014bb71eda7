"""Facts about a market in addition to its numbers: labels, dated names, instruments."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SnapshotMeta:
    """Facts about a snapshot in addition to its numbers, and descriptive labels. Only the facts are
    part of the snapshot's identity. Only messages, cards and pages may depend on a label.
    """

    name: str  #: label: short name, such as `synthetic-7`
    source: str  #: label: description of the data's origin
    synthetic: bool  #: True for generated markets; a board never ranks them with real markets
    #: False if prices were adjusted and came without a factor. They are then traded unchanged, and
    #: the card says so.
    has_factor: bool
    #: code of the benchmark index, a key of `MarketSnapshot.indices`; empty if the market has none
    benchmark: str
    repairs: tuple[str, ...] = ()  #: labels: descriptions of what the import changed, in order
    notes: tuple[str, ...] = ()  #: labels: descriptions of how the import read ambiguous data
    #: True for a market derived from another so that no selection can succeed
    placebo: bool = False


DELISTING_REPAIR = "delisting_return"
"""First word of the record of delisting returns among a market's repairs."""
LABELS = ("name", "source", "repairs", "notes")
"""Fields of `SnapshotMeta` that describe a market and are not part of its identity."""


@dataclass(frozen=True, slots=True)
class NameSpell:
    """A range of days on which an asset had the same name and code; both ends inclusive."""

    code: str  #: code of the asset's column
    first: str  #: ISO day
    last: str  #: ISO day
    name: str
    code_then: str  #: normalised code on these days; differs from `code` before a renumbering


@dataclass(frozen=True, slots=True)
class Instrument:
    """Kind, currency and venue of an asset; by default, those of an A-share."""

    kind: str = "stock"  #: stock, etf, crypto …
    currency: str = "CNY"  #: currency of its prices and amounts
    venue: str = "a_share"  #: name of the venue under whose rules it trades
