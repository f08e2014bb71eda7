"""Rates with intervals from counts, and the effects of hiding the stock or the date (KTD-Fin,
Appendix A).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from msgspec import UNSET, UnsetType

from ktdeval.stats import (
    MASK_FACTORS,
    Interval,
    MeanEstimate,
    ends_of_difference,
    estimate_mean,
    left_out_windows,
    mask_contrasts,
    overlap_correlation,
    wilson,
)
from ktdeval_rationale.category_counts import ROWS, EpisodeCounts

LEVEL = 0.95

HIDING = (
    ("stock", "bright", "stock_blind"),
    ("stock", "date_blind", "blinded"),
    ("date", "bright", "date_blind"),
    ("date", "stock_blind", "blinded"),
)
"""Hidden identity, and the masks before and after hiding it."""

REMOVES: Mapping[str, str] = {"stock": "stock", "date": "calendar"}
"""Hidden identity -> the row that should vanish when it is hidden, and the row that should remain
(Appendix A).
"""

_ROUNDING = 1e-9

Vector = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Share:
    """A share with its Wilson interval."""

    count: int
    n: int
    share: float | None  #: None without trials
    low: float | None
    high: float | None


@dataclass(frozen=True)
class MaskRates:
    """Shares of reasons and of steps that mention something, over all episodes under one mask. The
    shares are keyed by table row.
    """

    episodes: int
    reasons: int
    steps: int
    reason_rates: Mapping[str, Share]
    step_rates: Mapping[str, Share]
    #: share of steps that mention something not sent to the model in the step
    unsent_rates: Mapping[str, Share]
    #: for each source of texts, the number of texts by row; the key `texts` has the number of all
    #: texts
    sources: Mapping[str, Mapping[str, int]]
    #: share of steps that resemble a leak, and share of steps that do so without a mention; unset
    #: if not requested
    resembling: Share | UnsetType = UNSET
    only_resembling: Share | UnsetType = UNSET


@dataclass(frozen=True, slots=True)
class ShareDifference:
    """A difference of two shares."""

    value: float  #: first share minus second
    interval: Interval
    pairs: int  #: number of windows common to both; 0 if steps were treated as independent


@dataclass(frozen=True, kw_only=True)
class HidingRow:
    """Effect of hiding one identity: shares of steps before and after, and their difference."""

    hidden: str
    before: str  #: mask under which the identity is shown
    after: str
    row: str
    pairs: int
    share_before: float | None
    share_after: float | None
    difference: float
    low: float | None
    high: float | None
    method: str
    verdict: str | None  #: verdict on the paper's prediction; None if the paper makes no prediction


@dataclass(frozen=True, kw_only=True)
class IdentityEffectRow:
    """Effect of showing an identity on the share of steps, averaged over windows."""

    row: str
    effect: str
    windows: int
    value: float | None
    low: float | None
    high: float | None
    reason: str | None  #: why there is no interval


def mask_rates(counts: Sequence[EpisodeCounts]) -> MaskRates:
    """Return the shares of reasons and of steps over all episodes under one mask, keyed by table
    row.
    """
    reasons = sum(count.reasons for count in counts)
    steps = sum(count.steps for count in counts)
    return MaskRates(
        episodes=len(counts),
        reasons=reasons,
        steps=steps,
        reason_rates=_shares([count.reasons_with for count in counts], reasons),
        step_rates=_shares([count.steps_with for count in counts], steps),
        unsent_rates=_shares([count.unsent_with for count in counts], steps),
        sources=_by_source(counts),
    )


def _shares(counts: Sequence[Mapping[str, int]], n: int) -> dict[str, Share]:
    shares = {}
    for row in ROWS:
        total = sum(count[row] for count in counts)
        shares[row] = share(total, n)

    return shares


def _by_source(counts: Sequence[EpisodeCounts]) -> dict[str, dict[str, int]]:
    sums: dict[str, dict[str, int]] = {}
    for count in counts:
        for source, by_name in count.by_source.items():
            of_source = sums.setdefault(source, dict.fromkeys(by_name, 0))
            for name, texts in by_name.items():
                of_source[name] += texts

    return dict(sorted(sums.items()))


def share(successes: int, n: int) -> Share:
    """Return a share with its interval."""
    interval = wilson(successes, n, LEVEL)
    value = successes / n if n else None
    return Share(successes, n, value, interval.low, interval.high)


# ---- effects of hiding


def hiding_effects(by_mask: Mapping[str, Sequence[EpisodeCounts]]) -> list[HidingRow]:
    """Return the share of steps before hiding an identity, the share after, and their difference,
    for each pair of masks that differ in one identity.
    """
    rows: list[HidingRow] = []
    for hidden, before, after in HIDING:
        counts_before = by_mask.get(before)
        counts_after = by_mask.get(after)
        if not counts_before or not counts_after:
            continue

        for name in ROWS:
            effect = difference(counts_before, counts_after, name)
            if effect is None:
                continue

            rows.append(
                HidingRow(
                    hidden=hidden,
                    before=before,
                    after=after,
                    row=name,
                    pairs=effect.pairs,
                    share_before=_pool_counts(counts_before, name),
                    share_after=_pool_counts(counts_after, name),
                    difference=effect.value,
                    low=effect.interval.low,
                    high=effect.interval.high,
                    method=effect.interval.kind,
                    verdict=_prediction_verdict(hidden, name, effect.interval),
                )
            )

    return rows


def factorial_effects(by_mask: Mapping[str, Sequence[EpisodeCounts]]) -> list[IdentityEffectRow]:
    """Return the effects of showing the stock and the date on two rows of Appendix A, paired by
    window and seed. The result is empty unless all four masks are present.
    """
    if not all(by_mask.get(mask) for mask in MASK_FACTORS):
        return []

    rows: list[IdentityEffectRow] = []
    for name in REMOVES.values():
        paired = _pair_windows({mask: by_mask[mask] for mask in MASK_FACTORS}, name)
        if not paired.windows:
            continue

        for effect, values in mask_contrasts(paired.shares).items():
            mean = _mean_over_windows(values, paired.spans)
            rows.append(
                IdentityEffectRow(
                    row=name,
                    effect=effect,
                    windows=len(paired.windows),
                    value=mean.value,
                    low=mean.low,
                    high=mean.high,
                    reason=mean.reason,
                )
            )

    return rows


def difference(
    first: Sequence[EpisodeCounts], second: Sequence[EpisodeCounts], row: str
) -> ShareDifference | None:
    """Return the share of steps under one mask minus the share under another.

    Steps are paired by window and seed if both masks have at least two windows in common and these
    differ. The result is then the mean over windows of the mean over seeds, with a t interval that
    allows for shared days. Otherwise, steps are treated as independent, the interval is Newcombe's,
    and `pairs` is 0. The result is None if a mask has no step with a text.
    """
    paired = _pair_windows({"first": first, "second": second}, row)
    if len(paired.windows) >= 2:
        mean = _mean_over_windows(paired.shares["first"] - paired.shares["second"], paired.spans)
        if mean.value is not None and mean.low is not None and mean.high is not None:
            low = max(-1.0, mean.low)
            high = min(1.0, mean.high)
            interval = Interval(low, high, LEVEL, "t over windows", mean.n)
            return ShareDifference(mean.value, interval, mean.n)

    x1, n1 = _steps(first, row)
    x2, n2 = _steps(second, row)
    if not n1 or not n2:
        return None
    return ShareDifference(x1 / n1 - x2 / n2, newcombe((x1, n1), (x2, n2), LEVEL), 0)


def newcombe(first: tuple[int, int], second: tuple[int, int], level: float = LEVEL) -> Interval:
    """Return Newcombe's interval for the difference between two independent shares. Each share is
    given as successes and trials, and the interval is computed from the shares' Wilson intervals.
    """
    ends = ends_of_difference(_with_interval(*first, level), _with_interval(*second, level))
    if ends is None:
        return Interval(None, None, level, "none", 0, reason="no trials")

    low = max(-1.0, ends[0])
    high = min(1.0, ends[1])
    return Interval(low, high, level, "Newcombe, steps as independent", first[1] + second[1])


def _with_interval(successes: int, n: int, level: float) -> tuple[float, Interval]:
    value = successes / n if n else 0.0
    return value, wilson(successes, n, level)


# ---- pairs of windows


@dataclass(frozen=True, slots=True)
class _PairedShares:
    """Shares of steps for several sides, in the windows that all sides have in common."""

    windows: Sequence[str]
    spans: Sequence[tuple[str, str]]  #: first and last day of each window
    shares: Mapping[str, Vector]  #: [windows] means over seeds, keyed by side


def _pair_windows(sides: Mapping[str, Sequence[EpisodeCounts]], row: str) -> _PairedShares:
    """Pair the windows for which all sides have a common seed, leaving out windows that may not be
    averaged.
    """
    tables: dict[str, dict[tuple[str, int], EpisodeCounts]] = {}
    for name, counts in sides.items():
        tables[name] = {
            (count.spec.span.name, count.spec.seed): count for count in counts if count.steps
        }

    shared = sorted(set.intersection(*(set(table) for table in tables.values())))
    first = next(iter(tables.values()))
    spans = {window: first[window, seed].span for window, seed in shared}
    excluded = left_out_windows(spans)
    seeds: dict[str, list[int]] = {}
    for window, seed in shared:
        if window not in excluded:
            seeds.setdefault(window, []).append(seed)

    shares = {}
    for name, table in tables.items():
        means = []
        for window, of_window in seeds.items():
            cells = [table[window, seed] for seed in of_window]
            means.append(np.mean([cell.steps_with[row] / cell.steps for cell in cells]))

        shares[name] = np.array(means)

    return _PairedShares(list(seeds), [spans[window] for window in seeds], shares)


def _mean_over_windows(values: Vector, spans: Sequence[tuple[str, str]]) -> MeanEstimate:
    """Return the mean over windows with its interval. The interval is omitted if all windows have
    the same value.
    """
    mean = estimate_mean(values, overlap_correlation(spans), LEVEL)
    if mean.low is None or mean.high is None or mean.high - mean.low > _ROUNDING:
        return mean
    return replace(mean, low=None, high=None, reason="every window gives the same value")


def _steps(counts: Sequence[EpisodeCounts], row: str) -> tuple[int, int]:
    """Return the number of steps that mention something in a row, and the number of all steps."""
    return sum(count.steps_with[row] for count in counts), sum(count.steps for count in counts)


def _pool_counts(counts: Sequence[EpisodeCounts], row: str) -> float | None:
    named, steps = _steps(counts, row)
    return named / steps if steps else None


def _prediction_verdict(hidden: str, row: str, interval: Interval) -> str | None:
    """Return what an interval says about Appendix A's prediction; None for rows without a
    prediction.
    """
    if row not in REMOVES.values() or interval.low is None or interval.high is None:
        return None

    is_predicted = REMOVES[hidden] == row
    if interval.low > 0:
        return "removed (predicted)" if is_predicted else "less of it, not predicted"
    if interval.high < 0:
        suffix = "against the prediction" if is_predicted else "not predicted"
        return f"more of it, {suffix}"
    return "no change shown" if is_predicted else "no change shown (predicted)"
