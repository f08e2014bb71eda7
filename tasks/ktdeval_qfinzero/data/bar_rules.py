"""Rules of single bars, and of bars to each other: the same rules for ingestion, for storing and for checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ktdeval_qfinzero.data.bar_files import Block
from ktdeval_qfinzero.data.layout import BarsPlace
from ktdeval_qfinzero.data.rows import AssetClass, Bars, Resolution
from ktdeval_qfinzero.moments import DAY, MINUTE, moment_text

LARGEST_E4 = 10**14  #: Ten billion dollars: up to here a price is exact as a JSON number too
LARGEST_COUNT = 10**15
FIRST_NS, LAST_NS = 0, 2**62 - 1
"""Moments that data can have: 1970 to the beginning of 2116, as the calendar and news files have it."""
STEP: Mapping[Resolution, int] = {"day": DAY, "minute": MINUTE}  #: Length of a bar


@dataclass(frozen=True, slots=True, eq=False)
class Broken:
    """A rule that some bars break."""

    field: str  #: which column
    expected: str  #: what it must be
    bad: npt.NDArray[np.bool_]  #: [n] which bars


def broken_rules(bars: Bars, asset_class: AssetClass, resolution: Resolution) -> list[Broken]:
    """Return the rules on single bars that are broken."""
    step, start, volume = STEP[resolution], bars.start_ns, bars.volume
    beginning = f"a bar's start: {'midnight in UTC of its date' if resolution == 'day' else 'a full minute'}, from 1970 to 2115"
    rules = [
        Broken("time", beginning, _outside(start, FIRST_NS, LAST_NS) | (start % step != 0)),
        Broken("open", "a price above 0 and up to 10^10", _outside(bars.open_e4, 1, LARGEST_E4)),
        Broken("close", "a price above 0 and up to 10^10", _outside(bars.close_e4, 1, LARGEST_E4)),
        Broken("high", "the highest price of the bar, up to 10^10", _high_is_wrong(bars)),
        Broken("low", "the lowest price of the bar, above 0", _low_is_wrong(bars)),
        Broken("volume", "a number from 0 to 10^15", ~((volume >= 0) & (volume <= LARGEST_COUNT))),
        Broken("transactions", "a whole number from 0 to 10^15", _outside(bars.transactions, 0, LARGEST_COUNT)),
    ]
    if asset_class != "crypto":
        rules.append(Broken("volume", "a whole number", np.isfinite(volume) & (volume != np.floor(volume))))
    return [rule for rule in rules if rule.bad.any()]


def block_problems(place: BarsPlace, block: Block) -> list[str]:
    """Return what is wrong with the bars of a file: one line for each broken rule, with how many and the first."""
    broken = broken_rules(block.bars, place.asset_class, place.resolution)
    start = block.bars.start_ns
    within = np.ones(len(block), bool)
    within[block.offsets[:-1]] = False
    steps = np.diff(start, prepend=start[:1])
    broken.append(Broken("time", "each bar once", within & (steps == 0)))
    broken.append(Broken("time", "bars in the order of their starts", within & (steps < 0)))
    years = start.astype("datetime64[ns]").astype("datetime64[Y]").astype(np.int64) + 1970
    broken.append(Broken("time", f"bars that start in {place.year}", years != place.year))
    lines = [_line(block, rule) for rule in broken if rule.bad.any()]
    if list(block.symbols) != sorted(set(block.symbols)):
        lines.append("symbols are not in order, or one stands in several places")
    return lines


def _line(block: Block, rule: Broken) -> str:
    rows = np.flatnonzero(rule.bad)
    symbol = block.symbols[int(np.searchsorted(block.offsets, rows[0], side="right")) - 1]
    count = f"{len(rows)} bar{'s' if len(rows) > 1 else ''}"
    first_ns = int(block.bars.start_ns[rows[0]])
    moment = moment_text(first_ns) if FIRST_NS <= first_ns <= LAST_NS else f"{first_ns} ns"
    return f"{rule.field}: expected {rule.expected}: {count} of another kind, first {symbol} at {moment}"


def _outside(values: npt.NDArray[np.int64], least: int, most: int) -> npt.NDArray[np.bool_]:
    outside: npt.NDArray[np.bool_] = (values < least) | (values > most)
    return outside


def _high_is_wrong(bars: Bars) -> npt.NDArray[np.bool_]:
    most = np.maximum(np.maximum(bars.open_e4, bars.close_e4), bars.low_e4)
    return (bars.high_e4 < most) | (bars.high_e4 > LARGEST_E4)


def _low_is_wrong(bars: Bars) -> npt.NDArray[np.bool_]:
    return (bars.low_e4 < 1) | (bars.low_e4 > np.minimum(bars.open_e4, bars.close_e4))
