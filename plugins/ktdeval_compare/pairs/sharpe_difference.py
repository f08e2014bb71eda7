"""Test whether two Sharpe ratios are equal, for dependent and heteroscedastic returns (Ledoit and
Wolf 2008).

The test applies the delta method to the four moments (means and uncentred second moments). The
long-run covariance allows for dependence and heteroscedasticity. It uses the quadratic spectral
kernel with Andrews' (1991) bandwidth, prewhitened as in Andrews and Monahan (1992). Optionally, a
studentised circular block bootstrap replaces the normal distribution of the ratio.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

from ktdeval.stats import NO_VARIANCE, TRADING_DAYS

Matrix = npt.NDArray[np.float64]

MINIMUM_DAYS = 20  #: with fewer days, the estimate of the long-run variance is unreliable

#: A standard error times sqrt(days) below this value is a rounding error: one series is a leveraged
#: copy of the other.
_NO_ERROR = 1e-6

_LARGEST_ROOT = 0.97
_CHUNK = 250


@dataclass(frozen=True, slots=True, kw_only=True)
class SharpeDifference:
    """Result of a test for equal Sharpe ratios. Figures are annualised."""

    #: Sharpe ratio of the first series minus Sharpe ratio of the second; None if either is
    #: undefined
    value: float | None = None
    low: float | None = None  #: lower end of the interval
    high: float | None = None
    se: float | None = None
    p: float | None = None  #: two-sided
    n: int
    method: Literal["hac", "bootstrap"]
    reason: str | None = None  #: why other fields are None


def sharpe_difference(
    first: Matrix,
    second: Matrix,
    *,
    draws: int = 0,
    seed: int = 0,
    confidence: float = 0.95,
    days_a_year: int = TRADING_DAYS,
) -> SharpeDifference:
    """Compare the annualised Sharpe ratios (risk-free rate 0, ddof 1) of two series of daily
    returns over the same days.

    `first`: [n] simple daily returns. `second`: [n] returns of the other series on the same days.
    If `draws` is 0, the test uses the normal distribution; otherwise, it uses a bootstrap with this
    number of draws. A bootstrap block has `n**(1/3) / 2` days (2 for 43 days, 4 for 548 days). With
    this length, the measured size of the test is closest to the nominal size.
    """
    n = len(first)
    method: Literal["hac", "bootstrap"] = "bootstrap" if draws else "hac"
    problem = _series_problem(first, second)
    if problem:
        return SharpeDifference(n=n, method=method, reason=problem)

    pair = np.column_stack([first, second])
    difference = _difference(pair)
    error = math.sqrt(max(0.0, _variance(pair)))
    if error < _NO_ERROR / math.sqrt(n):
        return SharpeDifference(n=n, method=method, reason="the difference has no variance")

    ratio = abs(difference) / error
    if draws:
        sample = _bootstrap_ratios(pair, draws, max(1, round(math.cbrt(n) / 2)), seed)
        p = (1.0 + float((sample >= ratio).sum())) / (draws + 1.0)
        with np.errstate(invalid="ignore"):  # infinite ratios next to the quantile
            reach = float(np.quantile(sample, confidence)) * error
    else:
        p = float(2.0 * ndtr(-ratio))
        reach = -float(ndtri((1 - confidence) / 2)) * error

    year = math.sqrt(days_a_year)
    value = year * difference + 0.0
    test = SharpeDifference(value=value, se=year * error, p=p, n=n, method=method)
    if not math.isfinite(reach):
        return replace(test, reason="no interval: too many resamples have no variance")
    return replace(test, low=value - year * reach, high=value + year * reach)


def _series_problem(first: Matrix, second: Matrix) -> str | None:
    if len(first) != len(second):
        return "the series have different days"
    if len(first) < MINIMUM_DAYS:
        return f"fewer than {MINIMUM_DAYS} days"
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        return "a return is missing"
    if min(float(first.std()), float(second.std())) < NO_VARIANCE:
        return "returns have no variance"
    if np.array_equal(first, second):
        return "the two series are the same"

    return None


def _difference(pair: Matrix) -> float:
    ratios = pair.mean(axis=0) / pair.std(axis=0, ddof=1)
    return float(ratios[0] - ratios[1])


def _gradient(mean: Matrix, square: Matrix) -> Matrix:
    """Return the derivatives of `SR_1 - SR_2` with respect to the means and the uncentred second
    moments, […, 4]. `mean` and `square` are […, 2].
    """
    cube = (square - mean**2) ** 1.5
    sign = np.array([1.0, -1.0])
    return np.concatenate([sign * square / cube, -sign * mean / (2.0 * cube)], axis=-1)


def _return_moments(pair: Matrix) -> Matrix:
    """Return both return series and their squares, [n, 4]."""
    return np.concatenate([pair, pair**2], axis=-1)


def _variance(pair: Matrix) -> float:
    """Return the variance of the difference between daily Sharpe ratios, by the delta method."""
    moments = _return_moments(pair)
    mean = moments.mean(axis=0)
    gradient = _gradient(mean[:2], mean[2:])

    return float(gradient @ long_run_covariance(moments - mean) @ gradient) / len(pair)


def long_run_covariance(centred: Matrix) -> Matrix:
    """Return the [k, k] long-run covariance of a centred [n, k] series. It is estimated with the
    quadratic spectral kernel, after prewhitening with a VAR(1).

    The finite-sample factor `n / (n - k)`, and the bound of 0.97 on the singular values of the
    VAR's coefficient matrix, follow Andrews and Monahan.
    """
    n, k = centred.shape
    # Returns and squared returns differ by orders of magnitude. On a common scale, rounding affects
    # them equally.
    scale = np.sqrt((centred**2).mean(axis=0))
    series = centred / scale
    before = series[:-1]
    after = series[1:]
    coefficients = np.linalg.lstsq(before, after, rcond=None)[0].T
    left, roots, right = np.linalg.svd(coefficients)
    coefficients = (left * np.minimum(roots, _LARGEST_ROOT)) @ right
    residual = after - before @ coefficients.T
    covariance = _quadratic_spectral(residual, _andrews_bandwidth(residual))
    whitening = np.linalg.inv(np.eye(k) - coefficients)
    result: Matrix = whitening @ covariance @ whitening.T * np.outer(scale, scale) * (n / (n - k))

    return result


def _andrews_bandwidth(series: Matrix) -> float:
    """Return Andrews' (1991) plug-in bandwidth for the quadratic spectral kernel. It is computed
    from an AR(1) model for each column, with equal weights.
    """
    before = series[:-1]
    after = series[1:]
    rho = np.clip(
        (before * after).sum(axis=0) / (before**2).sum(axis=0), -_LARGEST_ROOT, _LARGEST_ROOT
    )
    variance = ((after - rho * before) ** 2).mean(axis=0)
    top = (4.0 * rho**2 * variance**2 / (1.0 - rho) ** 8).sum()
    bottom = (variance**2 / (1.0 - rho) ** 4).sum()

    return float(1.3221 * (top / bottom * len(series)) ** 0.2)


def _quadratic_spectral(series: Matrix, bandwidth: float) -> Matrix:
    """Return the [k, k] kernel-weighted sum of the autocovariances of a centred [n, k] series."""
    n = len(series)
    lags = np.arange(1, n)
    x = 6.0 * np.pi * lags / (5.0 * max(bandwidth, 1e-8))
    # The sum equals the product of the series and its filtered version. Filtering takes one Fourier
    # transform of the zero-padded series and its inverse.
    size = 1 << (2 * n - 1).bit_length()
    kernel = np.zeros(size)
    kernel[0] = 1.0
    kernel[lags] = kernel[size - lags] = 3.0 / x**2 * (np.sin(x) / x - np.cos(x))
    spectrum = np.fft.rfft(series, size, axis=0) * np.fft.rfft(kernel)[:, None]
    total: Matrix = series.T @ np.fft.irfft(spectrum, size, axis=0)[:n] / n

    return total


def _bootstrap_ratios(pair: Matrix, draws: int, block: int, seed: int) -> Matrix:
    """Return |difference* - difference| / se* for circular block samples, [draws]. The standard
    error se* is estimated from the blocks (Götze and Künsch 1996).
    """
    n = len(pair)
    blocks = n // block
    used = blocks * block
    generator = np.random.default_rng(seed)
    observed = _difference(pair)
    ratios = np.empty(draws)

    for start in range(0, draws, _CHUNK):
        size = min(_CHUNK, draws - start)
        starts = generator.integers(0, n, (size, blocks))
        rows = (starts[..., None] + np.arange(block)) % n
        moments = _return_moments(pair[rows.reshape(size, used)])
        mean = moments.mean(axis=1)
        spread = np.sqrt(np.maximum(mean[:, 2:] - mean[:, :2] ** 2, 0.0) * used / (used - 1))

        with np.errstate(divide="ignore", invalid="ignore"):
            gradient = _gradient(mean[:, :2], mean[:, 2:])
            along = np.einsum("dtk,dk->dt", moments - mean[:, None, :], gradient)
            sums = along.reshape(size, blocks, block).sum(axis=2)
            variance = (sums**2).sum(axis=1) / used**2
            differences = mean[:, 0] / spread[:, 0] - mean[:, 1] / spread[:, 1]
            part = np.abs(differences - observed) / np.sqrt(variance)

        # A sample without variance is uninformative. Its ratio is set to infinity, which can only
        # make the test more conservative.
        ratios[start : start + size] = np.where(np.isfinite(part), part, np.inf)

    return ratios
