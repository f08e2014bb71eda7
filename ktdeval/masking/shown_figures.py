"""Figures in one episode as a mask shows them: rebased, noisy, rounded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import cast

import numpy as np

from ktdeval.errors import DataError
from ktdeval.market.snapshots.snapshot import FloatArray, MarketSnapshot, MarketView
from ktdeval.masking.aliases_and_noise import (
    FIGURE_DIGITS,
    Noise,
    Part,
    cut_significant,
    first_levels,
    known_level,
    last_finite,
    round_each,
    round_significant,
)
from ktdeval.masking.mask_config import MaskConfig
from ktdeval.masking.payload_types import (
    AccountSum,
    IndexLevel,
    MarketFigure,
    OwnFigure,
    Price,
    Shares,
    small_number,
)
from ktdeval.values.documents.strict_json import JsonValue

REBASE_LEVEL = 100.0


class ShownFigures:
    """Figures in one episode as its mask shows them, with only the precision that a model can know.

    Only rows up to `base_row`, and the first close of assets listed later, are read.
    """

    def __init__(
        self, mask: MaskConfig, seed: int, snapshot: MarketSnapshot, base_row: int
    ) -> None:
        self.mask = mask
        self.base_row = base_row
        self._snapshot = snapshot
        self._digits = mask.round_digits
        self._noise: Noise | None = Noise(seed, mask.noise_pct) if mask.noise_pct else None
        self._index_scale = {
            code: REBASE_LEVEL / last_finite(levels[: base_row + 1])
            for code, levels in snapshot.indices.items()
        }

        self._scale: list[float] | None = None
        if mask.rebase_prices:
            self._scale = [1.0] * len(snapshot.codes)
        # The scale uses levels as shown, because shares and known prices must not reveal the true
        # levels.
        self._known_scale = list(self._scale or ())
        # assets that do not have a price for rebasing yet
        self._unlisted: Sequence[int] = range(len(self._scale or ()))
        # Newest first, so that an asset without a bar on day_+0 is rebased to its last close before
        # it.
        self._rebase(snapshot.close[base_row::-1])

    @property
    def are_as_in_data(self) -> bool:
        """True if prices, volumes and other figures are shown unchanged."""
        return self._scale is None and not self.mask.is_coarse

    def move_to(self, row: int) -> None:
        """Rebase assets listed by day `row`."""
        self._rebase(self._snapshot.close[self.base_row + 1 : row + 1])

    def shares_in(self, asset: int, shown: float) -> float:
        """Return the true number of shares for a shown number. They differ only under
        `rebase_prices`.
        """
        if self._scale is None:
            return shown
        return shown * self._known_scale[asset]

    def price_in(self, asset: int, shown: float) -> float:
        """Return the true price for a shown price. They differ only under `rebase_prices`."""
        if self._scale is None:
            return shown
        return shown / self._known_scale[asset]

    def known_price(self, asset: int, value: float, day: int | None, part: Part = "close") -> float:
        """Return a price with the precision that the mask reveals: the shown price, converted to
        currency units.

        All answers to a model's questions must be computed from this price. Otherwise, a series of
        answers could reveal the true price to the last digit.
        """
        if not self.mask.is_coarse or not math.isfinite(value):
            return value

        shown = cast("float", self.render_price(Price(asset, value, day, part)))
        return self.price_in(asset, float(shown))

    def known_weight(self, weight: float) -> float:
        """Return the weight to use for a decision: truncated towards zero to the mask's digits."""
        if self._digits is None:
            return weight
        return cut_significant(weight, self._digits)

    def as_shown(self, view: MarketView) -> MarketView:
        """Return a market whose prices, volumes and amounts have the digits that this mask shows,
        because figures computed from unrounded values would reveal further digits. Returns the view
        itself without `round_digits`, and also under `noise_pct`, where each figure has independent
        noise.
        """
        if self._digits is None or self._noise is not None:
            return view
        return self._rounded_market.as_of(view.day)

    @cached_property
    def _rounded_market(self) -> MarketSnapshot:
        digits = self._digits
        assert digits is not None  # the caller has checked that the mask rounds
        market = self._snapshot
        scale = np.ones(len(market.codes))
        if self._scale is not None:
            scale = REBASE_LEVEL / first_levels(market.close, self.base_row)

        # Tools round an amount to four digits before they round it to the mask's digits.
        few = min(digits, FIGURE_DIGITS)
        return replace(
            market,
            open=round_each(market.open * scale, digits),
            high=round_each(market.high * scale, digits),
            low=round_each(market.low * scale, digits),
            close=round_each(market.close * scale, digits),
            volume=round_each(market.volume / scale, few),
            amount=round_each(round_each(market.amount, FIGURE_DIGITS), few),
            id="",
        )

    def render_price(self, price: Price) -> float | None:
        """Return a price as shown; None if it is missing."""
        value = float(price.value)
        if self._scale is not None:
            value *= self._scale[price.asset]
        if self._noise is not None and price.day is not None:
            value *= self._noise.price(price.asset, price.day, price.part)

        shown = self._round_value(value)
        # Multiply the rounded price, because a multiple of the true price would reveal further
        # digits of it.
        if price.times != 1.0 and shown is not None:
            shown = self._round_value(shown * price.times)

        return None if shown is None else small_number(shown)

    def render_shares(self, shares: Shares) -> int | float | None:
        """Return shares held, ordered or traded as shown."""
        number = float(shares.value)
        if not math.isfinite(number):
            return None

        if shares.day is None:  # shares held or ordered, which are exact unless prices are rebased
            digits = None if self._scale is None else self._digits
            scale = self._known_scale
        else:  # a day's volume
            # A volume is shown next to its amount in currency. If the volume were scaled by the
            # levels as shown, the ratio of the two would reveal the digits rounded off the level.
            digits = min(self._digits or FIGURE_DIGITS, FIGURE_DIGITS)
            scale = self._scale or []
            if self._noise is not None:
                number *= self._noise.figure(shares.asset, shares.day, "volume")

        if self._scale is not None:
            number /= scale[shares.asset]

        # Round last, because rounding before rescaling would reveal the scale.
        if digits is not None:
            number = round_significant(number, digits)

        if self._scale is None and number.is_integer():
            return int(number)
        return small_number(number)

    def render_figure(self, figure: MarketFigure) -> JsonValue:
        """Return a market figure as shown."""
        value = float(figure.value)
        if (
            self._noise is None
            or figure.asset is None
            or figure.day is None
            or not math.isfinite(value)
        ):
            return self._round_value(value)

        if figure.since is None:
            value *= self._noise.figure(figure.asset, figure.day, figure.name)
        else:
            # Noise is applied to the ratio of the two prices, not to the percentage, so that the
            # change is consistent with the prices as shown.
            noise = self._noise.change(figure.asset, figure.day, figure.since)
            growth = (1.0 + value / 100.0) * noise
            value = (growth - 1.0) * 100.0

        return round_significant(value, self._digits or FIGURE_DIGITS)

    def render_own_figure(self, own: OwnFigure) -> float | None:
        """Return an account figure as shown."""
        if self._scale is None:
            return AccountSum(own.value)
        rounded = self._round_value(own.value)
        return None if rounded is None else AccountSum(rounded)

    def render_level(self, level: IndexLevel) -> float | None:
        """Return an index level as shown. Raises DataError if the snapshot does not have
        the index.
        """
        if level.code not in self._index_scale:
            raise DataError("a payload names an index that the snapshot lacks")
        value = float(level.value)
        if self.mask.hides_dates:  # a true level would reveal the day
            value *= self._index_scale[level.code]
        return self._round_value(value)

    def _round_value(self, value: float) -> float | None:
        """Round a number to the mask's digits; NaN and infinity become null."""
        if not math.isfinite(value):
            return None
        if self._digits is None:
            return value
        return round_significant(value, self._digits)

    def _rebase(self, closes: FloatArray) -> None:
        """Rebase each asset that has no reference price yet, so that its first finite close in
        `closes`, [rows, N], is shown as 100.
        """
        if self._scale is None or not self._unlisted or not len(closes):
            return

        first_row = np.isfinite(closes).argmax(axis=0)
        first = closes[first_row, np.arange(closes.shape[1])].tolist()
        still_unlisted = []

        for asset in self._unlisted:
            close = first[asset]
            if not close > 0.0:  # also if it is NaN
                still_unlisted.append(asset)
                continue

            level = known_level(close, asset, self.base_row, (self._noise, self._digits))
            self._scale[asset] = REBASE_LEVEL / close
            self._known_scale[asset] = REBASE_LEVEL / level

        self._unlisted = still_unlisted
