"""Typed payloads: every identity in them knows that it is one, so a mask never has to guess from text.

A payload is a tree of dicts (string keys), lists, tuples, plain scalars and the field types below. It is built from the true
market; only `Lens.render` turns it into what a model may see.
"""

from __future__ import annotations

from typing import Any, NamedTuple

Payload = Any  # str | int | float | bool | None | field type | list[Payload] | tuple[Payload, ...] | dict[str, Payload]


class AssetRef(NamedTuple):
    """An asset, by its column in the snapshot."""

    asset: int


class AssetName(NamedTuple):
    """The company name of an asset: shown where assets are visible, absent (null) where they are hidden."""

    asset: int


class DayRef(NamedTuple):
    """A trading day, by its row in the snapshot."""

    day: int


class SectorRef(NamedTuple):
    """An industry, by name."""

    industry: str


class Price(NamedTuple):
    """CNY a share of one asset, rescaled under `rebase_prices`."""

    asset: int
    value: float


class Shares(NamedTuple):
    """A number of shares (or a volume) of one asset, rescaled inversely under `rebase_prices`."""

    asset: int
    value: float


class IndexLevel(NamedTuple):
    """A level of an index, rebased to 100 at the episode's start where dates are hidden."""

    code: str
    value: float
