"""Many tests at once: p-values corrected for how many there are. A p-value that is None takes no part and stays None."""

from __future__ import annotations

from collections.abc import Sequence


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's (1979) step-down correction: holds the chance of any false positive, whatever the dependence of the tests.

    `max over tests at most as large of (m - rank + 1) * p`, at most 1, with m the number of tests that have a p-value.
    """
    order = _by_size(p_values)
    adjusted: list[float | None] = [None] * len(p_values)
    running = 0.0
    for rank, place in enumerate(order):
        running = max(running, (len(order) - rank) * _value(p_values, place))
        adjusted[place] = min(1.0, running)
    return adjusted


def benjamini_hochberg(p_values: Sequence[float | None]) -> list[float | None]:
    """Benjamini and Hochberg's (1995) step-up correction: holds the expected share of false positives among positives.

    `min over tests at least as large of m / rank * p`, at most 1; for independent or positively dependent tests.
    """
    order = _by_size(p_values)
    adjusted: list[float | None] = [None] * len(p_values)
    running = 1.0
    for rank in range(len(order), 0, -1):
        place = order[rank - 1]
        running = min(running, len(order) / rank * _value(p_values, place))
        adjusted[place] = running
    return adjusted


def _by_size(p_values: Sequence[float | None]) -> list[int]:
    for p in p_values:
        if p is not None and not 0.0 <= p <= 1.0:
            raise ValueError(f"a p-value lies in 0 … 1, was {p!r}")
    present = [place for place, p in enumerate(p_values) if p is not None]
    return sorted(present, key=lambda place: _value(p_values, place))


def _value(p_values: Sequence[float | None], place: int) -> float:
    p = p_values[place]
    if p is None:  # pragma: no cover - `_by_size` leaves these out
        raise ValueError("no p-value")
    return p
