"""New rows beside stored ones: what is new, what is the same, and what says something else under the same key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import numpy as np

from ktdeval_qfinzero.data.bar_files import Block, join
from ktdeval_qfinzero.data.blocks import SHOWN
from ktdeval_qfinzero.data.row_rules import key_text
from ktdeval_qfinzero.data.rows import BAR_COLUMNS, Bars, EventRow
from ktdeval_qfinzero.moments import moment_text

Rows = TypeVar("Rows")


@dataclass(frozen=True, slots=True)
class Tally:
    """Numbers of rows that were new, the same as stored, grown (events that gained releases), or other than stored."""

    new: int = 0
    same: int = 0
    grown: int = 0
    other: int = 0

    def __add__(self, more: Tally) -> Tally:
        return Tally(self.new + more.new, self.same + more.same, self.grown + more.grown, self.other + more.other)

    @property
    def changes(self) -> bool:
        """Whether the stored rows do not stay as they were."""
        return bool(self.new or self.grown or self.other)


@dataclass(frozen=True, slots=True)
class Merged(Generic[Rows]):
    """Stored and new rows together, the new ones where they contradict."""

    rows: Rows  #: all of them
    tally: Tally  #: of the new rows
    contradictions: tuple[str, ...]  #: the first of them, a line each


def merge_blocks(stored: Block, new: Block) -> Merged[Block]:
    """Bars of one file and what is to come to it. Keys are symbol and start; neither block has one twice."""
    symbols = tuple(sorted({*stored.symbols, *new.symbols}))
    places = {symbol: place for place, symbol in enumerate(symbols)}
    codes = np.concatenate(
        [np.repeat([places[symbol] for symbol in block.symbols], np.diff(block.offsets)) for block in (stored, new) if len(block)]
    )
    bars = join([block.bars for block in (stored, new) if len(block)])
    from_new = np.repeat([False, True], [len(stored), len(new)])
    order = np.lexsort((from_new, bars.start_ns, codes))
    bars, codes, from_new = bars.take(order), codes[order], from_new[order]
    # A stored bar and the new one of the same key stand side by side, the stored one first.
    twice = np.flatnonzero((np.diff(codes) == 0) & (np.diff(bars.start_ns) == 0))
    differs = {name: getattr(bars, name)[twice] != getattr(bars, name)[twice + 1] for name in BAR_COLUMNS}
    other = np.logical_or.reduce(list(differs.values()))
    keep = np.ones(len(bars), bool)
    keep[twice[other]] = False
    keep[twice[~other] + 1] = False
    kept_codes = codes[keep]
    offsets = np.searchsorted(kept_codes, np.arange(len(symbols) + 1)).astype(np.int64)
    tally = Tally(new=len(new) - len(twice), same=int((~other).sum()), other=int(other.sum()))
    lines = tuple(
        _bar_line(symbols[codes[row]], bars.take(slice(int(row), int(row) + 2)))
        for row in twice[other][:SHOWN]
    )  # fmt: skip
    return Merged(Block(symbols, offsets, bars.take(keep)), tally, lines)


def merge_rows(
    stored: Iterable[Any], new: Sequence[Any], key: Callable[[Any], Any], grown: Callable[[Any, Any], bool] | None = None
) -> Merged[list[Any]]:
    """Merge rows of a table and what is to come to it; neither has a key twice, and `grown` tells what is no contradiction."""
    held = {key(row): row for row in stored}
    tally, lines = Tally(), []
    for row in new:
        before = held.get(key(row))
        if before is None:
            tally += Tally(new=1)
        elif before == row:
            tally += Tally(same=1)
        elif grown is not None and grown(before, row):
            tally += Tally(grown=1)
        else:
            tally += Tally(other=1)
            lines.append(_row_line(key(row), before, row))
        held[key(row)] = row
    return Merged(list(held.values()), tally, tuple(lines[:SHOWN]))


def gained_releases(before: EventRow, after: EventRow) -> bool:
    """Return whether an event only gained releases: its outcome became known, or was revised."""
    count = len(before.releases)
    return after.releases[:count] == before.releases and replace(after, releases=before.releases) == before


def _bar_line(symbol: str, pair: Bars) -> str:
    stored, new = ({name: getattr(pair, name)[place].item() for name in BAR_COLUMNS} for place in (0, 1))
    name = next(name for name in BAR_COLUMNS if stored[name] != new[name])
    return f"{symbol} at {moment_text(stored['start_ns'])}: {name} is {stored[name]}, the new row says {new[name]}"


def _row_line(key: Any, stored: Any, new: Any) -> str:
    name = next(name for name in stored.__slots__ if getattr(stored, name) != getattr(new, name))
    texts = (str(getattr(row, name)) for row in (stored, new))
    before, after = (text if len(text) <= 80 else f"{text[:80]}…" for text in texts)
    return f"{key_text(key)}: {name} is {before}, the new row says {after}"
