"""Facts about a market in addition to its numbers: labels, names by date, instruments."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SnapshotMeta:
    """Facts about a snapshot in addition to its numbers, and labels as text. Only the facts are
    part of the snapshot's identity. Only messages, cards and pages may depend on a label.
    """

    name: str  #: label: short name, such as `synthetic-7`
    source: str  #: label: where the data come from, in words
    synthetic: bool  #: True for generated markets; a board never ranks them together with real ones
    #: False when prices came adjusted without a factor: they are then traded as they are, and the
    #: card says so
    has_factor: bool
    #: code of the benchmark index, a key of `MarketSnapshot.indices`; empty where the market has
    #: none
    benchmark: str
    repairs: tuple[str, ...] = ()  #: labels: what import changed in the source, in words, in order
    notes: tuple[str, ...] = ()  #: labels: how import read what can mean two things, in words
    placebo: bool = False  #: True for a market made from another one, without anything to select


LABELS = ("name", "source", "repairs", "notes")
"""Fields of `SnapshotMeta` that describe a market and are not part of its identity."""


@dataclass(frozen=True, slots=True)
class NameSpell:
    """Days on which an asset was called by a name and traded under a code; both ends are
    included.
    """

    code: str  #: code of the asset's column
    first: str  #: ISO day
    last: str  #: ISO day
    name: str
    code_then: str  #: normalised code of these days; other than `code` before a renumbering


@dataclass(frozen=True, slots=True)
class Instrument:
    """Kind, currency and venue of an asset; those of an A-share by default."""

    kind: str = "stock"  #: stock, etf, crypto …
    currency: str = "CNY"  #: of its prices and amounts
    venue: str = "a_share"  #: name of the venue under whose rules it trades
