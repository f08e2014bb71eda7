"""Typed payloads: every identity in them knows that it is one, so a mask never has to guess from text.

A payload is a tree of dicts (string keys), lists, tuples, plain scalars and the field types below. It is built from the true
market; only `Lens.render` turns it into what a model may see.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from ktdeval.jsonio import JsonValue
from ktdeval.masking.coarsen import Part

Payload = Any  # str | int | float | bool | None | field type | list[Payload] | tuple[Payload, ...] | dict[str, Payload]


class Exact(NamedTuple):
    """A whole payload of plain JSON that is shown as it is, numbers to their last digit: what a service answered.

    For masks that hide nothing; others refuse it, for they can't tell what is in it.
    """

    value: JsonValue

    def text(self) -> str:
        """Compact JSON, keys in the order given."""
        return json.dumps(self.value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


class Figure(NamedTuple):
    """A number that comes from market data and so may tell whose it is: a return, a turnover, a factor value.

    Rounded under `round_digits`; that of an asset carries noise under `noise_pct`. `AssetRef.figure`, `AssetRef.change_pct` and
    `DayRef.figure` make them.

    Attributes:
        value: the number.
        asset: column of the asset that it describes; None for the market as a whole, which gets no noise.
        day: row of the day that it describes; None where there is none, and then it gets no noise.
        name: which figure of this asset and day, so that each has a noise of its own.
        since: for the change of a price in per cent: row of the day that it counts from.
    """

    value: float
    asset: int | None = None
    day: int | None = None
    name: str = ""
    since: int | None = None


class AssetRef(NamedTuple):
    """An asset, by its column in the snapshot."""

    asset: int

    def figure(self, value: float, name: str, day: int) -> Figure:
        """A figure of this asset on a day, such as a turnover or a factor value; its noise is a share of it."""
        return Figure(value, self.asset, day, name)

    def change_pct(self, value: float, day: int, since: int) -> Figure:
        """Change of this asset's price from the close of one day to that of another, in per cent.

        Its noise is that of the two prices, so it agrees with them as they are shown.
        """
        return Figure(value, self.asset, day, "change_pct", since)


class AssetName(NamedTuple):
    """Company name of an asset: shown where assets are visible, absent (null) where they are hidden."""

    asset: int


class DayRef(NamedTuple):
    """A trading day, by its row in the snapshot."""

    day: int

    def figure(self, value: float) -> Figure:
        """A figure of the market as a whole on this day, such as an index return."""
        return Figure(value, day=self.day)


class SectorRef(NamedTuple):
    """An industry, by name."""

    industry: str


class Price(NamedTuple):
    """CNY a share of one asset, rescaled under `rebase_prices`, rounded under `round_digits`.

    Attributes:
        asset: column of the asset.
        value: CNY a share.
        day: row of the bar that the price is of, or follows from; None for a price of no bar, which gets no noise.
        part: which of the bar's prices.
    """

    asset: int
    value: float
    day: int | None = None
    part: Part = "close"


class Shares(NamedTuple):
    """A number of shares of one asset, rescaled inversely under `rebase_prices`.

    Attributes:
        asset: column of the asset.
        value: how many.
        day: row of the bar whose volume it is, which is rounded and gets noise; None for shares held or ordered, which stay exact.
    """

    asset: int
    value: float
    day: int | None = None


class IndexLevel(NamedTuple):
    """A level of an index, rebased to 100 at the episode's start where dates are hidden, rounded under `round_digits`."""

    code: str
    value: float
