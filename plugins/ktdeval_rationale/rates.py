"""Rates with intervals from counts, and the effects of hiding the stock or the date (KTD-Fin, Appendix A)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ktdeval.jsonio import JsonValue
from ktdeval.stats import (
    MASK_FACTORS,
    Interval,
    MetricValue,
    ends_of_difference,
    left_out_windows,
    mask_contrasts,
    mean_with_interval,
    overlap_correlation,
    wilson,
)
from ktdeval_rationale.counts import ROWS, EpisodeCounts

LEVEL = 0.95

HIDING = (
    ("stock", "bright", "stock_blind"),
    ("stock", "date_blind", "blinded"),
    ("date", "bright", "date_blind"),
    ("date", "stock_blind", "blinded"),
)
"""Identity that is hidden, and the masks before and after."""

REMOVES: Mapping[str, str] = {"stock": "stock", "date": "calendar"}
"""Identity that is hidden -> the row that should vanish with it, while the other should stay (Appendix A)."""

_ROUNDING = 1e-9

Vector = npt.NDArray[np.float64]
Row = dict[str, JsonValue]


class Difference(NamedTuple):
    """A difference of two shares."""

    value: float  #: the first less the second
    interval: Interval
    pairs: int  #: windows that both have; 0 if steps were taken as independent


def mask_rates(counts: Sequence[EpisodeCounts]) -> Row:
    """Return shares of reasons and of steps by row, over all episodes of one mask, with Wilson intervals."""

    def rates(name: str, n: int) -> Row:
        return {row: share(sum(getattr(count, name)[row] for count in counts), n) for row in ROWS}

    reasons, steps = sum(count.reasons for count in counts), sum(count.steps for count in counts)
    totals: Row = {"episodes": len(counts), "reasons": reasons, "steps": steps, "reason_rates": rates("reasons_with", reasons)}
    by_source: dict[str, dict[str, int]] = {}
    for source, by_name in (entry for count in counts for entry in count.by_source.items()):
        so_far = by_source.setdefault(source, dict.fromkeys(by_name, 0))
        by_source[source] = {name: so_far[name] + count for name, count in by_name.items()}
    step_rates = {"step_rates": rates("steps_with", steps), "unsent_rates": rates("unsent_with", steps)}
    return {**totals, **step_rates, "sources": dict(sorted(by_source.items()))}


def share(successes: int, n: int) -> Row:
    """Return a share with its interval, as JSON."""
    return {"count": successes, "n": n, "share": successes / n if n else None, **_ends(wilson(successes, n, LEVEL))}


def hiding_effects(by_mask: Mapping[str, Sequence[EpisodeCounts]]) -> list[Row]:
    """Return the shares of steps before and after, and their difference, of each pair of masks that differ in one identity."""
    rows: list[Row] = []
    for hidden, before, after in HIDING:
        if not by_mask.get(before) or not by_mask.get(after):
            continue
        for name in ROWS:
            effect = difference(by_mask[before], by_mask[after], name)
            if effect is not None:
                shares = {"share_before": _pooled(by_mask[before], name), "share_after": _pooled(by_mask[after], name)}
                method = {"method": effect.interval.kind, "verdict": _verdict(hidden, name, effect.interval)}
                key: Row = {"hidden": hidden, "before": before, "after": after, "row": name, "pairs": effect.pairs}
                rows.append({**key, **shares, "difference": effect.value, **_ends(effect.interval), **method})
    return rows


def factorial_effects(by_mask: Mapping[str, Sequence[EpisodeCounts]]) -> list[Row]:
    """Return, with all four masks, the effects of showing stock and date on two rows of Appendix A, paired by window and seed."""
    if not all(by_mask.get(mask) for mask in MASK_FACTORS):
        return []
    rows: list[Row] = []
    for name in REMOVES.values():
        windows, spans, cells = _paired({mask: by_mask[mask] for mask in MASK_FACTORS}, name)
        if not windows:
            continue
        for effect, values in mask_contrasts(cells).items():
            mean = mean_with_interval(values, overlap_correlation(spans), LEVEL)
            low, high, reason = _spread(mean)
            row: Row = {"row": name, "effect": effect, "windows": len(windows), "value": mean.value}
            rows.append({**row, "low": low, "high": high, "reason": reason})
    return rows


def difference(first: Sequence[EpisodeCounts], second: Sequence[EpisodeCounts], row: str) -> Difference | None:
    """Return the share of steps under one mask minus that under another.

    Paired by window and seed if both have at least two windows in common and these differ: the mean over windows of the mean
    over seeds, with a t interval that allows for days which windows share. Else steps count as independent, and the interval is
    Newcombe's; then `pairs` is 0. None if a mask has no step with a text.
    """
    windows, spans, cells = _paired({"first": first, "second": second}, row)
    if len(windows) >= 2:
        mean = mean_with_interval(cells["first"] - cells["second"], overlap_correlation(spans), LEVEL)
        low, high, _ = _spread(mean)
        if mean.value is not None and low is not None and high is not None:
            interval = Interval(max(-1.0, low), min(1.0, high), LEVEL, "t over windows", len(windows))
            return Difference(mean.value, interval, len(windows))
    counts = [(sum(count.steps_with[row] for count in side), sum(count.steps for count in side)) for side in (first, second)]
    if not all(n for _, n in counts):
        return None
    (x1, n1), (x2, n2) = counts
    return Difference(x1 / n1 - x2 / n2, newcombe((x1, n1), (x2, n2), LEVEL), 0)


def newcombe(first: tuple[int, int], second: tuple[int, int], level: float = LEVEL) -> Interval:
    """Return Newcombe's interval of a difference of two independent shares, from their Wilson intervals."""
    sides = [(x / n if n else 0.0, wilson(x, n, level)) for x, n in (first, second)]
    if (ends := ends_of_difference(*sides)) is None:
        return Interval(None, None, level, "none", 0, reason="no trials")
    return Interval(max(-1.0, ends[0]), min(1.0, ends[1]), level, "Newcombe, steps as independent", first[1] + second[1])


def _paired(sides: Mapping[str, Sequence[EpisodeCounts]], row: str) -> tuple[list[str], list[tuple[str, str]], dict[str, Vector]]:
    """Return the windows that all sides have with a common seed and that may be averaged, their spans, and each side's [windows]
    shares of steps, means over seeds.
    """
    tables = {name: {(count.spec.span.name, count.spec.seed): count for count in counts if count.steps}
              for name, counts in sides.items()}  # fmt: skip
    shared = sorted(set.intersection(*(set(table) for table in tables.values())))
    spans = {window: next(iter(tables.values()))[window, seed].span for window, seed in shared}
    spans = {window: span for window, span in spans.items() if window not in left_out_windows(spans)}
    windows, shared = list(spans), [cell for cell in shared if cell[0] in spans]
    cells = {}
    for name, table in tables.items():
        shares = {cell: table[cell].steps_with[row] / table[cell].steps for cell in shared}
        cells[name] = np.array([np.mean([shares[cell] for cell in shared if cell[0] == window]) for window in windows])
    return windows, list(spans.values()), cells


def _spread(mean: MetricValue) -> tuple[float | None, float | None, str | None]:
    """Return the ends of a mean's interval over windows, or none and the reason, such as windows with equal values."""
    detail = mean.detail or {}
    low, high = detail.get("low"), detail.get("high")
    if low is None or high is None:
        return None, None, mean.reason or detail.get("reason")
    return (low, high, None) if high - low > _ROUNDING else (None, None, "every window gives the same value")


def _pooled(counts: Sequence[EpisodeCounts], row: str) -> float | None:
    steps = sum(count.steps for count in counts)
    return sum(count.steps_with[row] for count in counts) / steps if steps else None


def _verdict(hidden: str, row: str, interval: Interval) -> str | None:
    """Return the interval's verdict on Appendix A's prediction; None for rows without a prediction."""
    if row not in REMOVES.values() or interval.low is None or interval.high is None:
        return None
    moved = "less" if interval.low > 0 else "more" if interval.high < 0 else "no change shown"
    if REMOVES[hidden] == row:
        return {"less": "removed (predicted)", "more": "more of it, against the prediction"}.get(moved, moved)
    return {"less": "less of it, not predicted", "more": "more of it, not predicted"}.get(moved, "no change shown (predicted)")


def _ends(interval: Interval) -> Row:
    return {"low": interval.low, "high": interval.high}
