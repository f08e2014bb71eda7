"""Figures for teams that are computed without a model: a technical table, position ratios, and limits scaled by volatility."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ktdeval.harness import label_key, last_object
from ktdeval.masking import figure, render_json
from ktdeval.yamlio import load_yaml
from ktdeval_agents.sight import ACCOUNT, Sight, first_number

Floats = npt.NDArray[np.float64]


def technical_figures(sight: Sight) -> str:
    """Return one line of figures for each asset whose bars are shown; empty without bars. Figures that need more bars than shown
    are left out.
    """
    lines = []
    for asset in sight.bars:
        text = ", ".join(f"{name} {_text_of(value)}" for name, value in technical(_bars(sight, asset), _year(sight, asset)).items())
        lines.append(f"- {asset}: {text or 'too few bars'}")
    return "\n".join(lines)


def _text_of(value: float) -> str:
    """Render four significant digits; numbers from 1 on as in payloads, so that a price of 2024 does not read as a year."""
    return render_json(figure(value)) if abs(value) >= 1.0 else f"{value:.4g}"


def technical(bars: Mapping[str, Floats], days_a_year: int) -> dict[str, float]:
    """Return figures of the last bar; `bars` are [T] close, high, low and volume, the oldest first.

    `ema_N`: exponential average of weight 2 / (N + 1) from the first bar on; `bollinger_*`: mean ± deviations of N closes; `z_N`:
    distance of the close from the mean of N closes in standard deviations; `rsi_N`: on simple means of N changes, 50 without any
    change; `volatility_N_pct`: annualised, of N daily changes; `volume_N`: volume over its mean; `pivot`, `support`, `resistance`
    from the last bar. Standard deviations have N - 1 degrees of freedom.
    """
    rules, close, volume = _parameters()["technical"], bars["close"], bars["volume"]
    changes = np.diff(close) / close[:-1]
    figures: dict[str, float] = {}
    for days in rules["ema"]:
        figures[f"ema_{days}"] = _ema(close, days)
    mean, deviation = _moments(close, rules["bollinger"]["days"])
    reach = rules["bollinger"]["deviations"] * deviation
    figures |= {"bollinger_lower": mean - reach, "bollinger_upper": mean + reach}
    mean, deviation = _moments(close, rules["z"])
    if len(close):
        figures[f"z_{rules['z']}"] = (close[-1] - mean) / deviation if deviation else 0.0
    figures[f"rsi_{rules['rsi']}"] = _rsi(np.diff(close), rules["rsi"])
    for days in rules["volatility"]:
        figures[f"volatility_{days}_pct"] = 100.0 * _moments(changes, days)[1] * math.sqrt(days_a_year)
    typical = _moments(volume, rules["volume"])[0]
    if typical > 0.0:
        figures[f"volume_{rules['volume']}"] = volume[-1] / typical
    if len(close):
        high, low = bars["high"][-1], bars["low"][-1]
        pivot = (high + low + close[-1]) / 3.0
        figures |= {"pivot": pivot, "support": 2.0 * pivot - high, "resistance": 2.0 * pivot - low}
    return {name: float(value) for name, value in figures.items() if math.isfinite(value)}


def position_ratios(sight: Sight) -> tuple[float, ...]:
    """Return the ratios on offer for N assets: steps of .05 from 0 to round(2/N · 20)/20, at least one step and at most 1. N is the
    number of candidates, else the most positions of the task, else 1.
    """
    rules = _parameters()["ratios"]
    steps_in_one = round(1.0 / rules["step"])
    assets = len(sight.candidates) or sight.most_positions or 1
    most = min(steps_in_one, max(1, round(rules["share"] / assets * steps_in_one)))
    return tuple(step / steps_in_one for step in range(most + 1))


def read_ratios(text: str, sight: Sight) -> dict[str, float]:
    """Return the position ratios of assets shown, from the last JSON object of a text, each rounded to the grid."""
    reply, grid = last_object(text), position_ratios(sight)
    ratios = {asset: first_number(reply, (label_key(asset),)) for asset in sight.rows}
    return {asset: min(grid, key=lambda step: abs(step - ratio)) for asset, ratio in ratios.items() if ratio is not None}


def volatility_limits(sight: Sight) -> str:
    """Return the largest weight in the NAV of each asset with a price, by volatility and correlation, and the unused part, one a
    line: the risk manager of `hedge_fund`.
    """
    rules = _parameters()["volatility_limits"]
    returns, lines = returns_by_day(sight), list[str]()
    correlations = average_correlations(returns, sight.held, rules["correlation"]["days"])
    for asset, row in sight.rows.items():
        if asset not in sight.prices:
            continue
        year = _year(sight, asset)
        measured = annual_volatility(row, list(returns.get(asset, {}).values()), rules["days"], year)
        volatility = rules["unknown_daily"] * math.sqrt(year) if measured is None else measured
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


def _bars(sight: Sight, asset: str) -> dict[str, Floats]:
    """Return [T] fields of the bars shown; a missing high or low is the close, a missing volume NaN."""
    rows = [bar for bar in sight.bars.get(asset, ()) if first_number(bar, ("close",))]
    fields_of = {"close": ("close",), "high": ("high", "close"), "low": ("low", "close"), "volume": ("volume",)}
    return {
        name: np.array([math.nan if (value := first_number(row, fields)) is None else value for row in rows])
        for name, fields in fields_of.items()
    }


def _year(sight: Sight, asset: str) -> int:
    rules, kind = _parameters(), str(sight.rows.get(asset, {}).get("kind"))
    return int(rules["days_a_year"].get(kind, rules["other_days_a_year"]))


def _ema(values: Floats, days: int) -> float:
    if len(values) < days:
        return math.nan
    last = float(values[0])
    for value in values[1:].tolist():
        last += 2.0 / (days + 1) * (value - last)
    return last


def _moments(values: Floats, days: int) -> tuple[float, float]:
    """Return mean and standard deviation of the last `days` values; NaN if there are fewer."""
    latest = values[-days:]
    return (float(latest.mean()), float(latest.std(ddof=1))) if len(values) >= days else (math.nan, math.nan)


def _rsi(changes: Floats, days: int) -> float:
    if len(changes) < days:
        return math.nan
    last = changes[-days:]
    gain, moved = float(last[last > 0].sum()), float(np.abs(last).sum())
    return 100.0 * gain / moved if moved else 50.0


@cache
def _parameters() -> dict[str, Any]:
    return load_yaml(Path(__file__).with_name("figures.yaml"))


COMPUTED: Mapping[str, Callable[[Sight], str]] = {
    "technical_figures": technical_figures,
    "volatility_limits": volatility_limits,
}
"""Figures as text, by their names in graphs."""


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
