"""Limits of positions by volatility and correlation, the risk manager of `hedge_fund` (`figures.yaml`)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ktdeval_agents.sight import ACCOUNT, Sight, first_number


def limit_lines(sight: Sight, rules: Mapping[str, Any], years: Mapping[str, int]) -> str:
    """Return the largest weight of each asset with a price in the NAV, and the unused part, one a line. `rules`: those of
    `volatility_limits`; `years`: days a year of each asset.
    """
    returns, lines = returns_by_day(sight), list[str]()
    correlations = average_correlations(returns, sight.held, rules["correlation"]["days"])
    for asset, row in sight.rows.items():
        if asset not in sight.prices:
            continue
        measured = annual_volatility(row, list(returns.get(asset, {}).values()), rules["days"], years[asset])
        volatility = rules["unknown_daily"] * math.sqrt(years[asset]) if measured is None else measured
        parts = f"annualised volatility {100 * volatility:.3g} %" + (" (assumed, none is shown)" if measured is None else "")
        limit = scaled_limit(volatility, rules)
        if (correlation := correlations.get(asset)) is not None:
            factor = correlation_factor(correlation, rules["correlation"]["bands"])
            parts, limit = f"{parts}, mean correlation {correlation:.2f} (factor {factor:g})", factor * limit
        left = limit - abs(first_number(row, ("weight",)) or 0.0)
        if sight.cash is not None and (nav := sight.prices.get(ACCOUNT, 0.0)) > 0.0:
            left = min(left, sight.cash / nav)
        lines.append(f"- {asset}: {parts}, at most {100 * limit:.3g} % of NAV, {100 * max(left, 0.0):.3g} % left")
    return "\n".join(lines)


def scaled_limit(volatility: float, rules: Mapping[str, Any]) -> float:
    """Return the limit of a position as a share of NAV, from an annualised volatility (.25 = 25 %)."""
    band = [band for band in rules["bands"] if band["from"] <= volatility][-1]
    return float(rules["limit"] * (band["start"] - band["slope"] * (volatility - band["from"])))


def correlation_factor(correlation: float, bands: Sequence[Mapping[str, float]]) -> float:
    """Return the factor of the last band that begins at or below a mean correlation."""
    return float([band["factor"] for band in bands if band["from"] <= correlation][-1])


def average_correlations(returns: Mapping[str, Mapping[str, float]], held: frozenset[str], least_days: int) -> dict[str, float]:
    """Return by asset the mean correlation with the other assets that are held, or with all others if none of them is held.

    `returns`: asset -> day -> return; only days of all assets count, at least `least_days`, of at least two assets. Pairs
    without a correlation (a price that never moved) are left out, and so are assets without one.
    """
    days = sorted(set.intersection(*(set(by_day) for by_day in returns.values()))) if len(returns) > 1 else []
    if len(days) < least_days:
        return {}
    names = list(returns)
    grid = np.array([[returns[name][day] for day in days] for name in names])
    with np.errstate(invalid="ignore", divide="ignore"):
        matrix = np.corrcoef(grid)
    means = {}
    for row, name in enumerate(names):
        others = [other for other, label in enumerate(names) if other != row and label in held]
        others = others or [other for other in range(len(names)) if other != row]
        if len(finite := matrix[row, others][np.isfinite(matrix[row, others])]):
            means[name] = float(finite.mean())
    return means


def returns_by_day(sight: Sight) -> dict[str, dict[str, float]]:
    """Return asset -> day as shown -> change of the close since the asset's bar before, of assets with at least two bars."""
    returns = {}
    for asset, bars in sight.bars.items():
        closes = [(str(bar.get("day")), close) for bar in bars if (close := first_number(bar, ("close",)))]
        if len(closes) > 1:
            returns[asset] = {day: close / before - 1.0 for (_, before), (day, close) in pairwise(closes)}
    return returns


def annual_volatility(row: Mapping[str, Any], returns: Sequence[float], days: int, year: int) -> float | None:
    """Return the annualised volatility of an asset, `year` days a year: of its last `days` returns; if fewer are shown, that of its
    row, else of these few; None if nothing is shown.
    """
    changes = returns[-days:]
    of_bars = float(np.std(changes, ddof=1)) * math.sqrt(year) if len(changes) > 1 else None
    if len(changes) == days:
        return of_bars
    if (daily := first_number(row, ("volatility_20d_pct",))) is not None:
        return daily / 100.0 * math.sqrt(year)
    annual = first_number(row, ("RV_60",))
    return of_bars if annual is None else annual / 100.0
