"""Numbers made coarser before a model sees them: rounding to significant digits, and noise that is always the same.

The noise of a number is drawn from a hash of the episode's mask seed and of what the number is (asset, day, name), so a value shown
twice is shown the same twice, and no average over repeated questions takes the noise off.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist
from typing import Literal

from ktdeval.seeds import derive_seed

Part = Literal["open", "high", "low", "close"]
"""Which of a bar's four prices."""

FIGURE_DIGITS = 4
"""Significant digits of a return, turnover or factor value with noise: more would say nothing, and cost tokens."""

_HALF_NORMAL = math.sqrt(2.0 / math.pi)
WICK_SHIFT = math.sqrt(1.0 / math.pi) + _HALF_NORMAL / 2.0
"""Mean of the noise of a high (a low's is the negative), in units of the noise: E max(z1, z2) + E|z3| / 2."""
WICK_SD = math.sqrt(1.0 - 1.0 / math.pi + (1.0 - 2.0 / math.pi) / 4.0)
"""Standard deviation of the noise of a high or low, in units of the noise."""

_REMEMBERED = 1 << 14
_NORMAL = NormalDist()
_SEED_BITS = 63


def round_significant(value: float, digits: int) -> float:
    """A finite number at so many significant digits."""
    return float(f"{value:.{digits}g}")


class Noise:
    """Noise of one episode.

    Args:
        seed: the mask seed of the episode.
        pct: size of the noise in per cent: standard deviation of the logarithm of a price, times 100.
    """

    def __init__(self, seed: int, pct: float) -> None:
        self._seed = seed
        self._size = pct / 100.0
        # Bars are shown again and again while a look-back slides over them.
        self._bar = lru_cache(maxsize=_REMEMBERED)(self._draw_bar)

    def price(self, asset: int, day: int, part: Part = "close") -> float:
        """Factor on one price of a bar.

        Log-normal for open and close. That of the high is never below, that of the low never above the other two, so that a bar
        keeps its order; see `WICK_SHIFT` and `WICK_SD`.
        """
        return self._bar(asset, day)[part]

    def change(self, asset: int, day: int, since: int) -> float:
        """Factor on a price's growth from one close to another: what the noise of the two prices makes of it."""
        return self._bar(asset, day)["close"] / self._bar(asset, since)["close"]

    def figure(self, asset: int, day: int, name: str) -> float:
        """Log-normal factor on another figure of an asset and day, such as a volume or a factor value."""
        return math.exp(self._size * self._normal(asset, day, name))

    def _draw_bar(self, asset: int, day: int) -> dict[Part, float]:
        opening, close = self._normal(asset, day, "open"), self._normal(asset, day, "close")
        high = max(opening, close) + abs(self._normal(asset, day, "high")) / 2.0
        low = min(opening, close) - abs(self._normal(asset, day, "low")) / 2.0
        drawn: dict[Part, float] = {"open": opening, "high": high, "low": low, "close": close}
        return {part: math.exp(self._size * draw) for part, draw in drawn.items()}

    def _normal(self, asset: int, day: int, name: str) -> float:
        """A standard normal number by inversion: equal on every machine and with every NumPy version."""
        uniform = (derive_seed(self._seed, "noise", asset, day, name) + 0.5) / (1 << _SEED_BITS)
        # The largest seeds round up to 1 in floating point.
        return _NORMAL.inv_cdf(min(uniform, math.nextafter(1.0, 0.0)))
