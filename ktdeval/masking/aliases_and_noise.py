"""Values derived from an episode's mask seed: aliases for assets and industries, and deterministic
noise.

The noise on a number is derived from a hash of the seed and of the number's asset, day and name. So
a value shown twice is shown identically, and averaging over repeated questions does not remove the
noise.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from decimal import ROUND_DOWN, Decimal
from functools import lru_cache
from statistics import NormalDist
from typing import Literal

import numpy as np

from ktdeval.market.snapshots.snapshot import FloatArray
from ktdeval.values.seeds import derive_seed


def _shuffle_positions(count: int, seed: int, stream: str) -> list[int]:
    """Return a permutation of 0..count-1 by sorting hashes. It is identical on every machine and
    with every NumPy version.
    """
    return sorted(range(count), key=lambda number: derive_seed(seed, stream, number))


def asset_order(seed: int, count: int) -> tuple[int, ...]:
    """Return the asset columns in the order in which a mask with this seed lists assets."""
    return tuple(_shuffle_positions(count, seed, "listing_order"))


def _drawn_numbers(count: int, most: int, seed: int) -> Sequence[int]:
    """Return distinct numbers from 1..most in random order. The largest number does not reveal how
    many assets the market has or will have.
    """
    numbers: dict[int, None] = {}
    draws = (1 + derive_seed(seed, "asset_alias", draw) % most for draw in itertools.count())
    while len(numbers) < count:
        numbers[next(draws)] = None
    return tuple(numbers)


class AliasMap:
    """Secret names for assets and industries, drawn once per episode from its mask seed. The three
    draws (asset numbers, sector numbers, listing order) are independent, so neither a number nor a
    position in a list reveals a code.
    """

    def __init__(self, seed: int, n_assets: int, industries: Iterable[str]) -> None:
        self._asset_width = max(4, len(str(2 * n_assets)))
        self._numbers = _drawn_numbers(n_assets, 10**self._asset_width - 1, seed)
        names = sorted(set(industries))
        width = max(2, len(str(len(names))))
        numbered = enumerate(_shuffle_positions(len(names), seed, "sector_alias"), start=1)
        self.sectors = {names[index]: f"sector_{number:0{width}d}" for number, index in numbered}
        """Handle of each industry: `sector_07`."""
        self.order: tuple[int, ...] = asset_order(seed, n_assets)

    def asset_handle(self, asset: int) -> str:
        """Return `asset_0042` for an asset column. Raises IndexError if the column does not
        exist.
        """
        if asset < 0:
            raise IndexError(f"asset column {asset} is negative")
        return f"asset_{self._numbers[asset]:0{self._asset_width}d}"


# no vowels, so that no words can result; no digits, so that no codes can
_LETTERS = "bcdfghjkmnpqrstvwxyz"
_HALF_BITS = 15
_HANDLE_LETTERS = 7
_ROUNDS = 6
_HALF = (1 << _HALF_BITS) - 1


class DocumentAlias:
    """Secret names for documents: a keyed permutation (Feistel) of row numbers, derived from a mask
    seed. It needs no stored state, and a name reveals neither row nor day.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def handle(self, row: int) -> str:
        """Return a handle such as `doc_bcdfghj` for a row. Raises IndexError if the row is below
        zero, or 2^30 or more.
        """
        if not 0 <= row < 1 << 2 * _HALF_BITS:
            raise IndexError(f"document row {row} has no name")

        left = row >> _HALF_BITS
        right = row & _HALF
        for turn in range(_ROUNDS):
            left, right = right, left ^ self._mix(turn, right)

        number = left << _HALF_BITS | right
        letters = []
        for _ in range(_HANDLE_LETTERS):
            number, digit = divmod(number, len(_LETTERS))
            letters.append(_LETTERS[digit])

        return "doc_" + "".join(letters)

    def row(self, handle: str) -> int | None:
        """Return the row for a handle; None if the handle is invalid. The row need not exist in the
        market.
        """
        letters = handle.removeprefix("doc_")
        if (
            len(letters) != _HANDLE_LETTERS
            or not handle.startswith("doc_")
            or not set(letters) <= set(_LETTERS)
        ):
            return None

        number = 0
        for letter in reversed(letters):
            number = number * len(_LETTERS) + _LETTERS.index(letter)

        left = number >> _HALF_BITS
        right = number & _HALF
        if left > _HALF:
            return None

        for turn in reversed(range(_ROUNDS)):
            left, right = right ^ self._mix(turn, left), left

        return left << _HALF_BITS | right

    def _mix(self, turn: int, half: int) -> int:
        return derive_seed(self._seed, "document", turn, half, bits=_HALF_BITS)


Part = Literal["open", "high", "low", "close"]  #: which of a bar's four prices
#: significant digits of a return, turnover or factor value with noise: further digits would carry
#: no information and cost tokens
FIGURE_DIGITS = 4
_HALF_NORMAL = math.sqrt(2.0 / math.pi)
WICK_SHIFT = math.sqrt(1.0 / math.pi) + _HALF_NORMAL / 2.0
"""Mean noise of a high, in units of the noise: E max(z1, z2) + E|z3| / 2. The mean noise of a low
is the negative of this.
"""
WICK_SD = math.sqrt(1.0 - 1.0 / math.pi + (1.0 - 2.0 / math.pi) / 4.0)
"""Standard deviation of the noise of a high or low, in units of the noise."""

_REMEMBERED = 1 << 14
_NEAR = 1e-7  # tolerance near a tie (in units of the last digit) or near a power of ten
_NORMAL = NormalDist()
_SEED_BITS = 63


#: format strings by number of significant digits; a float has at most 17
_SIGNIFICANT = tuple(f".{digits}g" for digits in range(18))


def round_significant(value: float, digits: int) -> float:
    """Round a finite number to `digits` significant digits."""
    return float(format(value, _SIGNIFICANT[digits]))


def round_each(values: FloatArray, digits: int) -> FloatArray:
    """Apply `round_significant` to each number; NaN for numbers that are not finite."""
    with np.errstate(all="ignore"):
        exponent = np.log10(np.abs(values))
        shift = digits - 1 - np.floor(exponent)
        # Powers of ten are exact floats; their reciprocals are not.
        up = 10.0 ** np.maximum(shift, 0.0)
        down = 10.0 ** np.maximum(-shift, 0.0)
        scaled = values * up / down
        rounded: FloatArray = np.where(values == 0.0, 0.0, np.rint(scaled) / up * down)

        # Near a tie or a power of ten, where float arithmetic may be off by one digit, round by
        # text.
        is_tie = np.abs(np.abs(scaled % 1.0 - 0.5)) < _NEAR
        is_power = np.abs(exponent - np.rint(exponent)) < _NEAR

    for index in np.argwhere(np.isfinite(values) & (is_tie | is_power)):
        place = tuple(index)
        rounded[place] = round_significant(float(values[place]), digits)
    return rounded


def cut_significant(value: float, digits: int) -> float:
    """Truncate a finite number towards zero to `digits` significant digits of its decimal form, so
    that 0.05 stays 0.05.
    """
    number = Decimal(repr(value))
    step = Decimal(1).scaleb(number.adjusted() - digits + 1)
    return float(number.quantize(step, ROUND_DOWN)) if number else 0.0


class Noise:
    """Noise for one episode. `pct`: standard deviation of the logarithm of a price, times 100."""

    def __init__(self, seed: int, pct: float) -> None:
        self._seed = seed
        self._size = pct / 100.0
        # The same bars are shown repeatedly while a look-back window slides over them.
        self._bar = lru_cache(maxsize=_REMEMBERED)(self._draw_bar)

    def price(self, asset: int, day: int, part: Part = "close") -> float:
        """Return the log-normal noise factor for one price of a bar. With this noise, the high
        stays at or above the open and close, and the low at or below them (see `WICK_SHIFT`,
        `WICK_SD`).
        """
        return self._bar(asset, day)[part]

    def change(self, asset: int, day: int, since: int) -> float:
        """Return the noise factor for a price's growth between two closes, which follows from the
        noise on the two prices.
        """
        return self._bar(asset, day)["close"] / self._bar(asset, since)["close"]

    def figure(self, asset: int, day: int, name: str) -> float:
        """Return the log-normal noise factor for another figure of an asset on a day, such as a
        volume or a factor value.
        """
        return math.exp(self._size * self._normal(asset, day, name))

    def _draw_bar(self, asset: int, day: int) -> dict[Part, float]:
        opening = self._normal(asset, day, "open")
        close = self._normal(asset, day, "close")
        high = max(opening, close) + abs(self._normal(asset, day, "high")) / 2.0
        low = min(opening, close) - abs(self._normal(asset, day, "low")) / 2.0
        drawn: dict[Part, float] = {"open": opening, "high": high, "low": low, "close": close}

        return {part: math.exp(self._size * draw) for part, draw in drawn.items()}

    def _normal(self, asset: int, day: int, name: str) -> float:
        """Return a standard normal number by inversion. It is the same on every machine and with
        every NumPy version.
        """
        uniform = (derive_seed(self._seed, "noise", asset, day, name) + 0.5) / (1 << _SEED_BITS)
        # Numbers from the largest seeds round up to 1 in floating point.
        return _NORMAL.inv_cdf(min(uniform, math.nextafter(1.0, 0.0)))


def known_level(level: float, asset: int, day: int, mask: tuple[Noise | None, int | None]) -> float:
    """Return the price that a mask shows as 100, with the mask's noise and rounding. The noise is
    drawn once per episode.
    """
    noise, digits = mask
    if noise is not None:
        level *= noise.figure(asset, day, "level")
        digits = digits or FIGURE_DIGITS
    return level if digits is None else round_significant(level, digits)


def last_finite(values: FloatArray) -> float:
    """Return the last finite number; NaN if none is finite."""
    known = values[np.isfinite(values)]
    return float(known[-1]) if len(known) else math.nan


def first_levels(closes: FloatArray, base_row: int) -> FloatArray:
    """Return the close of each asset that a rebased mask shows as 100. It is the last close up to
    `base_row` or, for an asset listed later, its first close; NaN without a close. Shape: [N].
    `closes`: [T, N].
    """
    newest_first = np.concatenate([closes[base_row::-1], closes[base_row + 1 :]])
    first_row = np.isfinite(newest_first).argmax(axis=0)
    levels: FloatArray = newest_first[first_row, np.arange(closes.shape[1])]
    return levels
