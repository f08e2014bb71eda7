"""Figures that several boards share: ratios, intervals, ceilings, archives. No part of ktdeval."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import zstandard
from scipy import stats

EULER_GAMMA = 0.5772156649015329


def unpack(archive: Path, into: Path) -> Path:
    """Unpack a `.tar.zst` under `into`, once; return the folder."""
    folder = into / archive.name.removesuffix(".tar.zst")
    if not folder.exists():
        with archive.open("rb") as packed:
            plain = zstandard.ZstdDecompressor().stream_reader(packed).read()
        with tarfile.open(fileobj=io.BytesIO(plain)) as tar:
            tar.extractall(folder, filter="data")
    return folder


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Rows of a JSON-lines file, in file order; empty lines are skipped."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line.strip()]


def returns_of(nav: Sequence[float]) -> np.ndarray:
    """Simple returns of consecutive values, [T-1]."""
    values = np.asarray(nav, dtype=float)
    return values[1:] / values[:-1] - 1.0


def sharpe(returns: Sequence[float], periods: float) -> float | None:
    """Mean over standard deviation (divisor n-1), times √periods; risk-free rate 0."""
    values = np.asarray(returns, dtype=float)
    if len(values) < 2:
        return None
    spread = values.std(ddof=1)
    if spread <= 1e-15:
        return None
    return float(values.mean() / spread * np.sqrt(periods))


def _moments(returns: Sequence[float]) -> tuple[int, float, float, float] | None:
    """Count, Sharpe ratio a period, skewness, kurtosis (3 for a normal; divisor n)."""
    values = np.asarray(returns, dtype=float)
    ratio = sharpe(values, 1.0)
    if ratio is None:
        return None
    return (
        len(values),
        ratio,
        float(stats.skew(values)),
        float(stats.kurtosis(values, fisher=False)),
    )


def sharpe_error(returns: Sequence[float], periods: float) -> float | None:
    """Standard error of the annual Sharpe ratio (Mertens 2002), divisor n-1."""
    moments = _moments(returns)
    if moments is None:
        return None
    n, ratio, skew, kurtosis = moments
    variance = 1.0 - skew * ratio + (kurtosis - 1.0) / 4.0 * ratio**2
    return float(np.sqrt(max(variance, 0.0) / (n - 1) * periods))


def sharpe_interval(returns: Sequence[float], periods: float) -> list[float] | None:
    """95 % interval of the annual Sharpe ratio: ratio ± 1.96 errors."""
    ratio = sharpe(returns, periods)
    error = sharpe_error(returns, periods)
    if ratio is None or error is None:
        return None
    return [ratio - 1.959964 * error, ratio + 1.959964 * error]


def psr(returns: Sequence[float], floor: float = 0.0) -> float | None:
    """Probabilistic Sharpe ratio (Bailey, López de Prado 2012); `floor` is a ratio a period."""
    moments = _moments(returns)
    if moments is None:
        return None
    n, ratio, skew, kurtosis = moments
    variance = 1.0 - skew * ratio + (kurtosis - 1.0) / 4.0 * ratio**2
    if variance <= 0.0:
        return None
    return float(stats.norm.cdf((ratio - floor) * np.sqrt(n - 1) / np.sqrt(variance)))


def best_of(trials: int) -> float:
    """Expected maximum of so many standard normals (Bailey, López de Prado 2014)."""
    if trials < 2:
        return 0.0
    first = (1.0 - EULER_GAMMA) * stats.norm.ppf(1.0 - 1.0 / trials)
    second = EULER_GAMMA * stats.norm.ppf(1.0 - 1.0 / (trials * np.e))
    return float(first + second)


def luck(series: dict[str, Sequence[float]], periods: float) -> dict[str, Any]:
    """Ratios, intervals, PSR, DSR of all entrants and the ceiling of the best of them.

    DSR: PSR against `best_of(N)` times the standard deviation (divisor N-1) of the entrants' ratios
    a period, N entrants taken as independent. `ceiling_by_noise`: the same with 1/√(n-1), n the
    longest series: what skill-less independent entrants would reach.
    """
    ratios = {name: sharpe(values, 1.0) for name, values in series.items()}
    known = [value for value in ratios.values() if value is not None]
    spread = float(np.std(known, ddof=1)) if len(known) > 1 else 0.0
    ceiling = best_of(len(known)) * spread
    longest = max((len(values) for values in series.values()), default=0)
    entrants = {}
    for name, values in series.items():
        entrants[name] = {
            "n": len(values),
            "sharpe": sharpe(values, periods),
            "interval95": sharpe_interval(values, periods),
            "psr0": psr(values),
            "dsr": psr(values, ceiling),
        }
    noise = best_of(len(known)) / np.sqrt(max(longest - 1, 1))
    return {
        "trials": len(known),
        "ceiling_by_spread": ceiling * float(np.sqrt(periods)),
        "ceiling_by_noise": float(noise * np.sqrt(periods)),
        "shown_above_zero": sorted(
            name
            for name, figures in entrants.items()
            if figures["interval95"] and figures["interval95"][0] > 0
        ),
        "entrants": entrants,
    }


def max_drawdown(nav: Sequence[float]) -> float:
    """Largest fall from a running peak, as a positive share of the peak."""
    values = np.asarray(nav, dtype=float)
    peaks = np.maximum.accumulate(values)
    return float(np.max(1.0 - values / peaks))


def money_drawdown(gains: Sequence[float]) -> float:
    """Largest fall of the cumulated gains from their running peak, which starts at 0; ≤ 0."""
    path = np.concatenate([[0.0], np.cumsum(np.asarray(gains, dtype=float))])
    return float(np.min(path - np.maximum.accumulate(path)))


def mean_interval(values: Sequence[float]) -> dict[str, Any]:
    """Mean with its 95 % interval by Student's t; null below two values."""
    numbers = np.asarray(values, dtype=float)
    found: dict[str, Any] = {"n": len(numbers), "mean": None, "interval95": None}
    if len(numbers):
        found["mean"] = float(numbers.mean())
        found["median"] = float(np.median(numbers))
    if len(numbers) > 1:
        half = stats.t.ppf(0.975, len(numbers) - 1) * numbers.std(ddof=1) / np.sqrt(len(numbers))
        found["interval95"] = [float(numbers.mean() - half), float(numbers.mean() + half)]
    return found


def holm(p_values: dict[str, float]) -> dict[str, float]:
    """Holm's adjusted p-values."""
    adjusted: dict[str, float] = {}
    running = 0.0
    for place, name in enumerate(sorted(p_values, key=p_values.__getitem__)):
        running = max(running, min(1.0, (len(p_values) - place) * p_values[name]))
        adjusted[name] = running
    return adjusted


def days_needed(ratio: float, periods: float, power: float = 0.8) -> float:
    """Periods needed to find an annual Sharpe ratio at one-sided 5 % with a power."""
    distance = stats.norm.ppf(0.95) + stats.norm.ppf(power)
    daily = ratio / np.sqrt(periods)
    return float(distance**2 * (1.0 + daily**2 / 2.0) / daily**2)


def detectable(n: int, periods: float, power: float = 0.8) -> float:
    """Annual Sharpe ratio that n periods can find at one-sided 5 % with a power."""
    distance = stats.norm.ppf(0.95) + stats.norm.ppf(power)
    return float(distance / np.sqrt(n) * np.sqrt(periods))


def plain(value: Any) -> Any:
    """The same with builtin numbers, and null for what is not finite."""
    if isinstance(value, dict):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(value) if np.isfinite(value) else None
    return value


def write_figures(folder: Path, board: str, figures: dict[str, Any]) -> None:
    """Store a board's figures as JSON."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(plain(figures), indent=1, ensure_ascii=False)
    (folder / f"{board}.json").write_text(text + "\n", encoding="utf-8")
