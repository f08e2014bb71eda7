"""Verdicts: which of two cards is better, after correction over all tests in a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Protocol, TypeVar

from ktdeval import stats


class TestedRow(Protocol):
    """A row that contains a test. Its p-value is corrected over all rows in the table."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def first(self) -> str:
        """Label of the first card."""

    @property
    def second(self) -> str:
        """Label of the second card."""

    @property
    def better(self) -> str:
        """Which direction of the figure is better, if any."""

    @property
    def p(self) -> float | None:
        """Uncorrected p-value; None if the row was not tested."""


_TestedT = TypeVar("_TestedT", bound=TestedRow)


def with_verdicts(rows: Sequence[_TestedT], alpha: float, effect: str = "value") -> list[_TestedT]:
    """Return the rows with corrected p-values and verdicts. `effect` names the field whose sign
    shows which card is higher.
    """
    p_values = [row.p for row in rows]
    by_holm = stats.holm(p_values)
    by_rate = stats.benjamini_hochberg(p_values)
    return [
        replace(
            row,
            p_holm=holm,
            p_benjamini_hochberg=rate,
            verdict=_test_verdict(row, getattr(row, effect), holm, alpha),
        )
        for row, holm, rate in zip(rows, by_holm, by_rate, strict=True)
    ]


def _test_verdict(
    row: TestedRow, effect: float | None, p: float | None, alpha: float
) -> str | None:
    """Return the better card, or `tied`. If neither direction is better, return the higher card.
    Return None if the p-value is missing.
    """
    if p is None:
        return None
    if p > alpha or not effect:
        return "tied"

    first_is_higher = effect > 0
    if row.better == "neither":
        higher = row.first if first_is_higher else row.second
        return f"{higher} higher"

    first_is_better = first_is_higher != (row.better == "lower")
    better = row.first if first_is_better else row.second
    return f"{better} better"
