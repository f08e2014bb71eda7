"""Reduced text for a candidate: what a prompt shows about the candidate, in about 30 tokens. The
language model completes this text with a return bucket.

    009161.SZ 2024-04-01 +0.95 +10 >

Label and day are as the mask shows them. Tokens are pairs of digits, single digits and single
printable characters, so that codes, dates and masked labels need no market-specific vocabulary.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ktdeval.errors import DataError
from ktdeval.market import FloatArray
from ktdeval.values import Value

Tokens = npt.NDArray[np.int64]

FIGURES = ("return_1d_pct", "return_20d_pct")  #: shown in each line, to two significant digits
UNKNOWN_FIGURE = "~"
ANSWERS = 6  #: return buckets: three for falls, largest first, then three for rises, largest last
FALLS = ANSWERS // 2
LINE = 28  #: tokens per line, padded on the left
_PIECE = re.compile(r"[0-9]{1,2}|[^0-9]")
_PAD = 0
_UNKNOWN = 1
_PRINTABLE = map(chr, range(32, 127))
_PAIRS = [f"{number:02d}" for number in range(100)]
_SINGLE = [*"0123456789", *(char for char in _PRINTABLE if not char.isdigit())]
_NUMBER_OF = {piece: number for number, piece in enumerate([*_PAIRS, *_SINGLE], start=2)}
FIRST_ANSWER = len(_NUMBER_OF) + 2  #: token for the largest fall
VOCABULARY = FIRST_ANSWER + ANSWERS


def line_of(label: str, day: str, cells: Mapping[str, Any]) -> str:
    """Return the line for a candidate. `cells` is the candidate's row in the prompt, keyed by
    column.
    """
    figures = [_figure_text(cells.get(name)) for name in FIGURES]
    return " ".join([label, day, *figures, ">"])


def _figure_text(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return UNKNOWN_FIGURE
    if abs(value) < 100:
        return f"{value:+.2g}"
    return f"{value:+.0f}"  # .2g would give 1.2e+02


def tokens_of(lines: Sequence[str]) -> Tokens:
    """Return the tokens of each line, [N, LINE], padded on the left. A line that is too long loses
    its start.
    """
    tokens = np.full((len(lines), LINE), _PAD, dtype=np.int64)
    for row, line in enumerate(lines):
        numbers = [_NUMBER_OF.get(piece, _UNKNOWN) for piece in _PIECE.findall(line)][-LINE:]
        tokens[row, LINE - len(numbers) :] = numbers

    return tokens


class Sizes(Value):
    """Meaning of the answers: the bounds between the sizes, and the mean return of each size."""

    bounds: tuple[float, ...]  #: [5] bounds in ascending order; the middle one is 0
    means: tuple[float, ...]  #: [6] mean returns, as fractions

    @classmethod
    def of(cls, returns: FloatArray) -> Sizes:
        """Split returns, [N] fractions without 0 or NaN, into falls and rises, and each of the two
        into thirds. Raises DataError if a third is empty, since its answer would have no meaning.
        """
        thirds = [1 / 3, 2 / 3]
        falls = returns[returns < 0]
        rises = returns[returns > 0]
        bounds: list[float] = []
        if len(falls) and len(rises):
            bounds = [*np.quantile(falls, thirds), 0.0, *np.quantile(rises, thirds)]

        numbers = np.searchsorted(bounds, returns)
        counts = np.bincount(numbers, minlength=ANSWERS)
        if not bounds or not counts.all():
            raise DataError(
                f"{len(falls)} falls and {len(rises)} rises: these returns can't be split into"
                f" {FALLS} sizes of falls and {ANSWERS - FALLS} of rises; raise"
                " --days"
            )

        means = [float(returns[numbers == size].mean()) for size in range(ANSWERS)]
        return cls(bounds=tuple(map(float, bounds)), means=tuple(means))

    def answers(self, returns: FloatArray) -> Tokens:
        """Return the answer token for each return, [N]."""
        return FIRST_ANSWER + np.searchsorted(self.bounds, returns)
