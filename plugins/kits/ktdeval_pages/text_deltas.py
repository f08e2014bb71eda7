"""Stores texts as differences from a base text, as `rsync` does in transfers. The cards of a
division repeat each other's task and definitions, and the episodes of a window repeat its prices;
pages store these only once.

Deltas are exact for any text, since no value is parsed. A restored card has the same bytes as the
submitted file, and therefore the same SHA-256.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

#: end of a piece, such as a member of a JSON object; `kt.restored` divides texts in the same way
_COMMA = ","

MIN_RUN = 4
"""Minimum number of pieces in a run copied from the base; shorter runs pack better as text."""

_BLOCK = 16  #: number of pieces that are compared at once

Delta = list[str | list[int]]
"""A text as comma-separated parts. A part is either a text, or a run of the base given as [start,
count] in pieces.
"""


class BaseText:
    """Text from which other texts copy their pieces."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.pieces = text.split(_COMMA)
        self._positions: dict[str, list[int]] = {}
        for position, piece in enumerate(self.pieces):
            self._positions.setdefault(piece, []).append(position)

    def delta(self, text: str) -> Delta:
        """Return a text as its differences from the base.

        The time grows linearly with the length of the text, since each piece is looked up or
        compared at most twice.
        """
        base = self.pieces
        pieces = text.split(_COMMA)
        delta: Delta = []
        literal: list[str] = []
        index = 0
        expected = 0  # next position in the base, if text and base are in step
        while index < len(pieces):
            piece = pieces[index]
            start: int | None = expected
            if expected >= len(base) or base[expected] != piece:
                start = self._position(piece, expected)

            if start is None:
                literal.append(piece)
                index += 1
                expected += 1
                continue

            count = self._run(start, pieces, index)
            if count < MIN_RUN:
                literal += pieces[index : index + count]
            else:
                if literal:
                    delta.append(_COMMA.join(literal))
                    literal = []

                delta.append([start, count])

            index += count
            expected = start + count

        if literal:
            delta.append(_COMMA.join(literal))

        return delta

    def _position(self, piece: str, expected: int) -> int | None:
        """Return a position of a piece in the base: the first from the expected position on, or
        else the last. Return None if the base does not contain the piece.
        """
        positions = self._positions.get(piece)
        if positions is None:
            return None

        later = bisect_left(positions, expected)
        return positions[min(later, len(positions) - 1)]

    def _run(self, start: int, pieces: Sequence[str], index: int) -> int:
        """Return the number of consecutive pieces, starting at `index`, that equal the base's
        pieces starting at `start`.
        """
        base = self.pieces
        most = min(len(base) - start, len(pieces) - index)
        count = 1
        # Whole blocks are compared at once, which is ten times as fast as comparing piece by piece.
        while (
            count + _BLOCK <= most
            and base[start + count : start + count + _BLOCK]
            == pieces[index + count : index + count + _BLOCK]
        ):
            count += _BLOCK

        while count < most and base[start + count] == pieces[index + count]:
            count += 1

        return count


def restore_text(base: BaseText, delta: Delta) -> str:
    """Return the text that a delta represents; the inverse of `BaseText.delta`."""
    parts = []
    for part in delta:
        if isinstance(part, str):
            parts.append(part)
        else:
            start, count = part
            parts += base.pieces[start : start + count]

    return _COMMA.join(parts)
