"""Questions that are fixed before any answer is known: the metric, the effect of interest, the
test, the windows, the error rate, and the interim looks at which the question may be settled.

A leaderboard registration contains a `Question`; the plan of a grid contains a `SequentialRule`.
The functions of `question_answers` answer both, using only differences per window.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal

from msgspec import Meta

from ktdeval.stats import looks_that_can_stop
from ktdeval.values.documents.typed_json import Value

Windows = Annotated[int, Meta(ge=1, le=1000)]


class SequentialRule(Value, frozen=True, kw_only=True):
    """Rule by which a comparison over windows is settled, at planned looks."""

    metric: Annotated[str, Meta(min_length=1, max_length=100)]  #: as on cards
    #: windows at each look, increasing; the last number is that of planned windows
    looks: Annotated[tuple[Windows, ...], Meta(min_length=1, max_length=100)]
    #: two-sided error over all looks together
    alpha: Annotated[float, Meta(ge=1e-6, le=0.5)] = 0.05
    #: how much of alpha the looks may use up to each point; `anytime`: an interval that is valid at
    #: all times
    spending: Literal["obrien-fleming", "pocock", "anytime"] = "obrien-fleming"
    #: statistic: ranks of differences, or the differences themselves
    test: Literal["signed-rank", "sign-flip"] = "signed-rank"
    #: smallest difference that is worth finding, in the metric's unit
    effect: Annotated[float, Meta(gt=0, le=1e9)]

    def __post_init__(self) -> None:
        if any(after <= before for before, after in pairwise(self.looks)):
            raise ValueError("looks: must increase, such as [4, 7, 10]")
        if not self.can_settle:
            raise ValueError(
                f"looks: {self.looks[-1]} windows can't settle the question at alpha"
                f" {self.alpha:g}, even if all differences have one sign; plan more windows"
            )

    @property
    def can_settle(self) -> bool:
        """True if at least one look can settle the question."""
        if self.spending == "anytime":
            return True
        return any(looks_that_can_stop(self.looks, self.spending, self.alpha))

    @property
    def words(self) -> str:
        """Description of the rule: `total_return, signed-rank test, looks at 4, 7, 10
        windows, …`.
        """
        looks = ", ".join(map(str, self.looks))
        return (
            f"{self.metric}, {self.test} test, looks at {looks} windows, {self.spending}, alpha"
            f" {self.alpha:g}, effect of interest {self.effect:g}"
        )


class Question(SequentialRule, frozen=True, kw_only=True):
    """Question that a registration fixes before its mask key is drawn."""

    #: `zero`, `benchmark` (buying the index, for total_return), or the id of a card of the board
    against: Annotated[str, Meta(pattern=r"^(zero|benchmark|[0-9a-f]{64})$(?!\n)")] = "benchmark"
    #: windows in the order in which the looks add them
    windows: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=300)], ...],
        Meta(min_length=1, max_length=1000),
    ]

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(set(self.windows)) != len(self.windows):
            raise ValueError("windows: a name appears twice")
        if self.looks[-1] != len(self.windows):
            raise ValueError(
                f"looks: the last look is at {self.looks[-1]} windows, but the question has"
                f" {len(self.windows)}; the last look must include all of them"
            )
        if self.against == "benchmark" and self.metric != "total_return":
            raise ValueError(
                "against: the only metric of the benchmark is total_return; use total_return, or"
                " compare with zero or a card"
            )
