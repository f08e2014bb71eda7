"""How much of a figure's spread comes from the window and how much from the seed: random effects by ANOVA moments.

A seed's chance (the model's sampling, the alias map) is drawn anew in each window, so seeds are nested in windows:
`figure = mean + window effect + seed effect within the window`. With `k` windows, `n_i` seeds in window i and N figures in all,

    MS_within  = sum over windows of sum (y - window mean)^2 / (N - k)              seed variance
    MS_between = sum over windows of n_i * (window mean - mean)^2 / (k - 1)
    window variance = (MS_between - MS_within) / n0,  n0 = (N - sum n_i^2 / N) / (k - 1)

(Searle, Casella and McCulloch 1992, chapter 3). `crossed_components` treats a seed number as a factor of its own across windows:
a seed that is good everywhere would show there, and nothing but an error in the seeding can make one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import fdtrc

from ktdeval.jsonio import JsonValue

Figures = Mapping[tuple[str, int], float | None]
"""(window, seed) -> a figure of that episode; None where it is not defined, which is left out."""


@dataclass(frozen=True, slots=True)
class Component:
    """One variance, or the reason why there is none.

    Attributes:
        variance: in the square of the figure's unit; a negative estimate by moments is set to 0.
        raw: the estimate by moments before that.
        degrees: degrees of freedom of its mean square.
        reason: why it is None.
    """

    variance: float | None
    raw: float | None
    degrees: int
    reason: str | None = None

    @property
    def deviation(self) -> float | None:
        """Its square root, in the figure's unit."""
        return None if self.variance is None else math.sqrt(self.variance)

    def to_json(self) -> dict[str, JsonValue]:
        """The component as a JSON object."""
        fields: dict[str, JsonValue] = {"variance": self.variance, "deviation": self.deviation, "degrees": self.degrees}
        return fields | ({"reason": self.reason} if self.reason else {"raw": self.raw})


@dataclass(frozen=True, slots=True)
class Components:
    """Window and seed variance of one figure.

    Attributes:
        window: between windows, free of what seeds put into it.
        seed: between seeds of one window.
        mean: mean of the window means; None without a figure.
        mean_error: standard error of that mean over windows; None below two windows.
        windows, figures: how many of each.
    """

    window: Component
    seed: Component
    mean: float | None
    mean_error: float | None
    windows: int
    figures: int

    def to_json(self) -> dict[str, JsonValue]:
        """The components as a JSON object."""
        return {
            "window": self.window.to_json(), "seed": self.seed.to_json(), "mean": self.mean, "mean_error": self.mean_error,
            "windows": self.windows, "figures": self.figures,
        }  # fmt: skip


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


@dataclass(frozen=True, slots=True)
class CrossedComponents:
    """Window, seed and rest of a complete table, one figure a cell.

    Attributes:
        window, seed: main effects.
        residual: their interaction, which one figure a cell can't tell from noise.
        seed_p: p value of the F test that no seed number differs from another; small means that seeds are not exchangeable.
    """

    window: Component
    seed: Component
    residual: Component
    seed_p: float | None


def crossed_components(table: npt.ArrayLike) -> CrossedComponents:
    """Two-way random effects of a complete [windows, seeds] table, by ANOVA moments.

    `MS_window = S * sum (row mean - mean)^2 / (W - 1)`, `MS_seed = W * sum (column mean - mean)^2 / (S - 1)`, `MS_residual` the
    rest over (W - 1)(S - 1); window variance `(MS_window - MS_residual) / S`, seed variance `(MS_seed - MS_residual) / W`.

    Raises:
        ValueError: the table is not two-dimensional and finite.
    """
    cells = np.asarray(table, dtype=np.float64)
    if cells.ndim != 2 or not np.isfinite(cells).all():
        raise ValueError("crossed components need a complete [windows, seeds] table of finite figures")
    rows, columns = cells.shape
    if rows < 2 or columns < 2:
        nothing = Component(None, None, 0, "fewer than two windows" if rows < 2 else "fewer than two seeds")
        return CrossedComponents(nothing, nothing, nothing, None)
    mean, by_row, by_column = cells.mean(), cells.mean(axis=1), cells.mean(axis=0)
    degrees = (rows - 1) * (columns - 1)
    residual = float(((cells - by_row[:, None] - by_column[None, :] + mean) ** 2).sum() / degrees)
    ms_window = float(columns * ((by_row - mean) ** 2).sum() / (rows - 1))
    ms_seed = float(rows * ((by_column - mean) ** 2).sum() / (columns - 1))
    window, seed = (ms_window - residual) / columns, (ms_seed - residual) / rows
    p = float(fdtrc(columns - 1, degrees, ms_seed / residual)) if residual > 0 else None
    return CrossedComponents(
        Component(max(window, 0.0), window, rows - 1),
        Component(max(seed, 0.0), seed, columns - 1),
        Component(residual, residual, degrees),
        p,
    )
