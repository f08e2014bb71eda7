"""Split ratios as vendors write them."""

from __future__ import annotations

import re

from ktdeval_tables.numbers import PLAIN

_NUMBER = r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
_PAIR = re.compile(
    rf"{_NUMBER}\s*(?::|/|-?\s*for\s*-?|-?\s*to\s*-?|-|：)\s*{_NUMBER}", re.IGNORECASE
)


def ratio_of(text: str) -> float:
    """Return the number of new shares per old share: 2 for `2`, `2:1`, `2.000000/1.000000`,
    `2-for-1`; NaN if the text is not a ratio.
    """
    cell = text.strip()
    pair = _PAIR.fullmatch(cell)
    if pair is not None:
        new = float(pair[1])
        old = float(pair[2])
        return new / old if old else float("nan")

    return float(cell) if re.fullmatch(PLAIN, cell) else float("nan")
