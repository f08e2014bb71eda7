"""How much of a figure's spread comes from the window and how much from the seed: random effects by ANOVA moments.

A seed's chance (the model's sampling, the alias map) is drawn anew in each window, so seeds are nested in windows:
`figure = mean + window effect + seed effect within the window`. With `k` windows, `n_i` seeds in window i and N figures in all,

    MS_within  = sum over windows of sum (y - window mean)^2 / (N - k)              seed variance
    MS_between = sum over windows of n_i * (window mean - mean)^2 / (k - 1)
    window variance = (MS_between - MS_within) / n0,  n0 = (N - sum n_i^2 / N) / (k - 1)

(Searle, Casella and McCulloch 1992, chapter 3). statsmodels' MixedLM fits the same model by restricted likelihood: equal to
7 digits on a balanced table, without the raw estimate where the window variance is at its bound, and 17 against 0.05 ms a figure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Figures = Mapping[tuple[str, int], float | None]
"""(window, seed) -> a figure of that episode; None where it is not defined, which is left out."""


@dataclass(frozen=True, slots=True)
class Component:
    """One variance, or the reason why there is none."""

    variance: float | None  # in the square of the figure's unit; a negative estimate by moments is set to 0
    raw: float | None  # the estimate by moments before that
    degrees: int  # degrees of freedom of its mean square
    reason: str | None = None  # why it is None

    @property
    def deviation(self) -> float | None:
        """Its square root, in the figure's unit."""
        return None if self.variance is None else math.sqrt(self.variance)


@dataclass(frozen=True, slots=True)
class Components:
    """Window and seed variance of one figure. `windows, figures`: how many of each."""

    window: Component  # between windows, free of what seeds put into it
    seed: Component  # between seeds of one window
    mean: float | None  # mean of the window means; None without a figure
    mean_error: float | None  # standard error of that mean over windows; None below two windows
    windows: int
    figures: int


def variance_components(figures: Figures) -> Components:
    """Window variance and seed variance of a figure, seeds nested in windows; windows may have different numbers of seeds."""
    groups: dict[str, list[float]] = {}
    for (window, _), value in sorted(figures.items()):
        if value is not None:
            groups.setdefault(window, []).append(float(value))
    sizes = np.array([len(group) for group in groups.values()])
    k, total = len(groups), int(sizes.sum())
    if not total:
        nothing = Component(None, None, 0, "no figure")
        return Components(nothing, nothing, None, None, 0, 0)
    means = np.array([math.fsum(group) / len(group) for group in groups.values()])
    overall = math.fsum(means) / k
    error = float(means.std(ddof=1) / math.sqrt(k)) if k > 1 else None
    within = math.fsum((value - mean) ** 2 for group, mean in zip(groups.values(), means.tolist(), strict=True) for value in group)
    if total == k:
        seed = Component(None, None, 0, "one seed a window")
    else:
        seed = Component(within / (total - k), within / (total - k), total - k)
    return Components(_window_component(sizes, means, seed), seed, overall, error, k, total)


def _window_component(sizes: npt.NDArray[np.int64], means: npt.NDArray[np.float64], seed: Component) -> Component:
    k, total = len(sizes), int(sizes.sum())
    if k < 2:
        return Component(None, None, 0, "one window")
    if seed.variance is None:
        return Component(None, None, k - 1, "one seed a window: window and seed can't be told apart")
    grand = float((sizes * means).sum() / total)
    between = float((sizes * (means - grand) ** 2).sum() / (k - 1))
    n0 = (total - float((sizes**2).sum()) / total) / (k - 1)
    raw = (between - seed.variance) / n0
    return Component(max(raw, 0.0), raw, k - 1)
