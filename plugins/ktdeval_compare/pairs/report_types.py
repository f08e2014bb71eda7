"""Types for the report of `compare` on trading cards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from msgspec import UNSET, UnsetType

from ktdeval.stats import Shift, SignedRank, SignFlip
from ktdeval_compare.pairs.compared_cards import EntrantCard


@dataclass(frozen=True)
class ComparedCard:
    """A card in a comparison."""

    task: str
    label: str
    path: str
    labels: Sequence[str]


def describe_cards(group: str, entrants: Sequence[EntrantCard]) -> Iterator[ComparedCard]:
    """Yield a group's cards as rows of a report. A group is a task or a market."""
    for entrant in entrants:
        labels = list(entrant.card.labels)
        yield ComparedCard(group, entrant.label, str(entrant.path), labels)


@dataclass(frozen=True, kw_only=True)
class PairDifference:
    """Difference between the first and the second card in one window, or in one window and seed."""

    window: str
    seed: int | UnsetType = UNSET  #: unset if the difference is the median over the window's seeds
    value: float


@dataclass(frozen=True, slots=True)
class Wilcoxon(SignedRank):
    """Signed-rank test that allows for windows that share days."""

    p_if_windows_were_apart: float | None = None


@dataclass(frozen=True, kw_only=True)
class PairTest:
    """Test of one metric for a pair of cards."""

    task: str
    metric: str
    unit: str
    better: str
    first: str
    second: str
    n: int  #: number of pairs
    windows: int
    seeds: int
    left_out: Mapping[str, int]  #: number of omitted (window, seed) cells, by reason
    differences: Sequence[PairDifference]
    shift: Shift
    rank_biserial: float | None
    wilcoxon: Wilcoxon
    sign_flip: SignFlip
    p: float | None
    reason: str | None
    p_holm: float | None = None  #: corrected over all rows in the report
    p_benjamini_hochberg: float | None = None
    verdict: str | None = None  #: the better card, or `tied`


@dataclass(frozen=True, kw_only=True)
class DailyTest:
    """Test of the difference between two cards' Sharpe ratios, based on their daily returns."""

    task: str
    test: str = "sharpe_difference"
    better: str = "higher"
    first: str
    second: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    se: float | UnsetType | None = UNSET  #: standard error; unset if not tested
    p: float | None = None
    n: int  #: number of days
    method: str | UnsetType = UNSET
    reason: str | None = None
    p_hac: float | UnsetType | None = UNSET  #: p-value based on the normal distribution
    p_holm: float | None = None
    p_benjamini_hochberg: float | None = None
    verdict: str | None = None


@dataclass(frozen=True, kw_only=True)
class BestSet:
    """Cards of one task whose mean daily return does not differ significantly from the highest."""

    task: str
    test: str = "model_confidence_set"
    of: str = "mean daily return"
    tied_with_best: Sequence[str] | None = None
    p: Mapping[str, float] | None = None  #: p-value of each card
    n: int  #: number of days
    block: int | UnsetType = UNSET  #: block length of the bootstrap, in days
    reason: str | UnsetType | None = UNSET  #: why the set can't be determined


@dataclass(frozen=True, kw_only=True)
class CompareReport:
    """Report of `ktdeval compare` on trading cards."""

    alpha: float
    unit: str
    seed: int
    cards: Sequence[ComparedCard]
    tests: Sequence[PairTest]  #: one row per task, metric and pair
    daily: Sequence[DailyTest]  #: one row per task and pair
    best: Sequence[BestSet]  #: one row per task
    notes: Sequence[str]
