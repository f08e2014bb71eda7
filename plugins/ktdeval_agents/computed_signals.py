"""Figures for teams, computed without a model: a table of technical indicators, position ratios,
and volatility-scaled limits.
"""

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
from ktdeval.observation import ObservedAsset, ObservedBar, ObservedState, first_number
from ktdeval.values import load_yaml

Floats = npt.NDArray[np.float64]


def technical_figures(state: ObservedState) -> str:
    """Return one line of figures for each asset whose bars are shown; empty without bars. Figures
    that need more bars than are shown are omitted.
    """
    lines = []
    for label, bars in state.history.items():
        figures = technical(_bar_columns(bars), _days_a_year(state.assets.get(label)))
        parts = [f"{name} {_text_of(value)}" for name, value in figures.items()]
        text = ", ".join(parts) or "too few bars"
        lines.append(f"- {label}: {text}")

    return "\n".join(lines)


def _text_of(value: float) -> str:
    """Format a number with four significant digits. Numbers of 1 or more are formatted as in
    payloads, so that a price of 2024 does not read as a year.
    """
    if abs(value) < 1.0:
        return f"{value:.4g}"
    return render_json(figure(value))


def technical(bars: Mapping[str, Floats], days_a_year: int) -> dict[str, float]:
    """Return the technical indicators at the last bar. `bars` are [T] close, high, low and volume,
    oldest first.

    `ema_N`: exponential moving average with weight 2 / (N + 1), from the first bar on;
    `bollinger_*`: mean ± standard deviations of N closes; `z_N`: z-score of the close over N
    closes; `rsi_N`: from simple means of N changes, 50 if no close changed; `volatility_N_pct`:
    annualised, from N daily changes; `volume_N`: volume divided by its mean over N bars; `pivot`,
    `support`, `resistance`: from the last bar. Standard deviations have N - 1 degrees of freedom.
    """
    rules = _parameters()["technical"]
    close = bars["close"]
    volume = bars["volume"]
    changes = np.diff(close) / close[:-1]
    figures: dict[str, float] = {}

    for days in rules["ema"]:
        figures[f"ema_{days}"] = _ema(close, days)

    mean, deviation = _mean_and_deviation(close, rules["bollinger"]["days"])
    reach = rules["bollinger"]["deviations"] * deviation
    figures |= {"bollinger_lower": mean - reach, "bollinger_upper": mean + reach}
    mean, deviation = _mean_and_deviation(close, rules["z"])

    if len(close):
        distance = close[-1] - mean
        figures[f"z_{rules['z']}"] = distance / deviation if deviation else 0.0

    figures[f"rsi_{rules['rsi']}"] = _rsi(np.diff(close), rules["rsi"])
    for days in rules["volatility"]:
        figures[f"volatility_{days}_pct"] = (
            100.0 * _mean_and_deviation(changes, days)[1] * math.sqrt(days_a_year)
        )

    typical = _mean_and_deviation(volume, rules["volume"])[0]
    if typical > 0.0:
        figures[f"volume_{rules['volume']}"] = volume[-1] / typical

    if len(close):
        high = bars["high"][-1]
        low = bars["low"][-1]
        pivot = (high + low + close[-1]) / 3.0
        figures |= {"pivot": pivot, "support": 2.0 * pivot - high, "resistance": 2.0 * pivot - low}

    return {name: float(value) for name, value in figures.items() if math.isfinite(value)}


def position_ratios(state: ObservedState) -> tuple[float, ...]:
    """Return the position ratios on offer for N assets: steps of .05 from 0 to round(2/N · 20)/20,
    which is at least one step and at most 1. N is the number of candidates; without candidates, the
    task's position limit; without a limit, 1. Ratios above the task's maximum weight are replaced
    by that weight.
    """
    rules = _parameters()["ratios"]
    steps_in_one = round(1.0 / rules["step"])
    assets = len(state.candidates) or state.limits.max_positions or 1
    most = round(rules["share"] / assets * steps_in_one)
    most = min(steps_in_one, max(1, most))
    grid = tuple(step / steps_in_one for step in range(most + 1))

    largest = state.limits.max_weight
    if largest is None or grid[-1] <= largest:
        return grid
    return (*(ratio for ratio in grid if ratio < largest), largest)


def read_ratios(text: str, state: ObservedState) -> dict[str, float]:
    """Return the position ratios for the assets shown, parsed from the last JSON object in a text
    and rounded to the grid.
    """
    reply = last_object(text)
    grid = position_ratios(state)
    ratios: dict[str, float] = {}

    for label in state.assets:
        ratio = first_number(reply, label_key(label))
        if ratio is not None:
            ratios[label] = _nearest(grid, ratio)

    return ratios


def _nearest(grid: Sequence[float], ratio: float) -> float:
    return min(grid, key=lambda step: abs(step - ratio))


def volatility_limits(state: ObservedState) -> str:
    """Return one line for each asset with a price: the maximum weight, and how much of it is
    unused. The maximum is scaled by volatility and correlation, and never exceeds the task's limit.
    This is the risk manager of `hedge_fund`. Empty if the task asks for BUY, SELL or HOLD, since
    such a task sets sizes itself.
    """
    if state.limits.asks_decisions:
        return ""

    rules = _parameters()["volatility_limits"]
    closes = closes_by_day(state)
    held = frozenset(state.positions)
    correlations = average_correlations(closes, held, rules["correlation"]["days"])
    free = _free_share(state)
    lines = list[str]()

    for label, asset in state.assets.items():
        if asset.price is None:
            continue

        own_closes = closes.get(label, {}).values()
        changes = [close / before - 1.0 for before, close in pairwise(own_closes)]
        year = _days_a_year(asset)
        volatility = annual_volatility(asset, changes, rules["days"], year)
        assumed = ""
        if volatility is None:
            volatility = rules["unknown_daily"] * math.sqrt(year)
            assumed = " (assumed, none is shown)"

        parts = f"annualised volatility {100 * volatility:.3g} %{assumed}"
        limit = scaled_limit(volatility, rules)

        correlation = correlations.get(label)
        if correlation is not None:
            factor = correlation_factor(correlation, rules["correlation"]["bands"])
            parts += f", mean correlation {correlation:.2f} (factor {factor:g})"
            limit = factor * limit

        if state.limits.max_weight is not None:
            limit = min(limit, state.limits.max_weight)

        weight = asset.figure("weight") or 0.0
        left = max(0.0, min(limit - abs(weight), free))
        lines.append(
            f"- {label}: {parts}, at most {100 * limit:.3g} % of NAV, room for"
            f" {100 * left:.3g} % of NAV"
        )

    return "\n".join(lines)


def _free_share(state: ObservedState) -> float:
    """Return cash as a share of the NAV; infinite if the account isn't shown."""
    cash = state.account.cash
    nav = state.account.nav
    if cash is None or nav is None or nav <= 0.0:
        return math.inf
    return cash / nav


def _bar_columns(bars: Sequence[ObservedBar]) -> dict[str, Floats]:
    """Return [T] prices and volumes of the bars that have a close. A missing high or low is
    replaced by the close, and a missing volume by NaN.
    """
    closes, highs, lows, volumes = [], [], [], []
    for bar in bars:
        if not bar.close:
            continue

        closes.append(bar.close)
        highs.append(bar.close if bar.high is None else bar.high)
        lows.append(bar.close if bar.low is None else bar.low)
        volumes.append(math.nan if bar.volume is None else bar.volume)

    return {
        "close": np.array(closes, dtype=np.float64),
        "high": np.array(highs, dtype=np.float64),
        "low": np.array(lows, dtype=np.float64),
        "volume": np.array(volumes, dtype=np.float64),
    }


def _days_a_year(asset: ObservedAsset | None) -> int:
    """Return the number of trading days per year for an asset's kind."""
    rules = _parameters()
    kind = "" if asset is None else asset.kind
    return int(rules["days_a_year"].get(kind, rules["other_days_a_year"]))


def _ema(values: Floats, days: int) -> float:
    if len(values) < days:
        return math.nan

    last = float(values[0])
    for value in values[1:].tolist():
        last += 2.0 / (days + 1) * (value - last)

    return last


def _mean_and_deviation(values: Floats, days: int) -> tuple[float, float]:
    """Return the mean and standard deviation of the last `days` values; NaN if there are fewer
    values.
    """
    if len(values) < days:
        return math.nan, math.nan

    latest = values[-days:]
    return float(latest.mean()), float(latest.std(ddof=1))


def _rsi(changes: Floats, days: int) -> float:
    if len(changes) < days:
        return math.nan

    last = changes[-days:]
    gain = float(last[last > 0].sum())
    moved = float(np.abs(last).sum())

    return 100.0 * gain / moved if moved else 50.0


@cache
def _parameters() -> dict[str, Any]:
    return load_yaml(Path(__file__).with_name("figures.yaml"))


COMPUTED: Mapping[str, Callable[[ObservedState], str]] = {
    "technical_figures": technical_figures,
    "volatility_limits": volatility_limits,
}
"""Functions that return figures as text, keyed by the figures' names in graphs."""


def scaled_limit(volatility: float, rules: Mapping[str, Any]) -> float:
    """Return a position limit as a share of NAV, given an annualised volatility (.25 is 25 %)."""
    begun = [band for band in rules["bands"] if band["from"] <= volatility]
    band = begun[-1]
    share = band["start"] - band["slope"] * (volatility - band["from"])
    return float(rules["limit"] * share)


def correlation_factor(correlation: float, bands: Sequence[Mapping[str, float]]) -> float:
    """Return the factor of the last band that starts at or below a mean correlation."""
    begun = [band for band in bands if band["from"] <= correlation]
    return float(begun[-1]["factor"])


def average_correlations(
    closes: Mapping[str, Mapping[str, float]], held: frozenset[str], min_days: int
) -> dict[str, float]:
    """Return the mean correlation of each asset with the other held assets. If no other asset is
    held, the mean is over all other assets.

    `closes`: asset -> day -> close, oldest first. Returns are computed between successive days on
    which all assets have a close. Empty if there are fewer than two assets, or fewer than
    `min_days` such returns. Pairs with an undefined correlation (a price that never moved) are
    omitted, and so are assets for which no pair is left.
    """
    days = _common_days(closes)
    if len(closes) < 2 or len(days) <= min_days:
        return {}

    names = list(closes)
    rows = []
    for name in names:
        by_day = closes[name]
        rows.append([by_day[day] for day in days])

    path = np.array(rows)
    returns = path[:, 1:] / path[:, :-1] - 1.0
    with np.errstate(invalid="ignore", divide="ignore"):
        matrix = np.corrcoef(returns)

    means: dict[str, float] = {}
    for row, name in enumerate(names):
        others = [index for index in range(len(names)) if index != row]
        others_held = [index for index in others if names[index] in held]
        values = matrix[row, others_held or others]
        finite = values[np.isfinite(values)]
        if len(finite):
            means[name] = float(finite.mean())

    return means


def _common_days(closes: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Return the days on which all assets have a close, in order."""
    paths = list(closes.values())
    if not paths:
        return []
    return [day for day in paths[0] if all(day in path for path in paths)]


def closes_by_day(state: ObservedState) -> dict[str, dict[str, float]]:
    """Return a mapping asset -> day as shown -> close, oldest first, for assets with at least two
    bars.
    """
    closes: dict[str, dict[str, float]] = {}
    for label, bars in state.history.items():
        own = {bar.day: bar.close for bar in bars if bar.close}
        if len(own) > 1:
            closes[label] = own

    return closes


def annual_volatility(
    asset: ObservedAsset, returns: Sequence[float], days: int, year: int
) -> float | None:
    """Return the annualised volatility of an asset, with `year` days per year; None if unknown. It
    is computed from the last `days` returns. If fewer returns are shown, the figure in the asset's
    row is used, and without that figure the returns that are shown.
    """
    changes = returns[-days:]
    of_bars = None
    if len(changes) > 1:
        of_bars = float(np.std(changes, ddof=1)) * math.sqrt(year)

    if len(changes) == days:
        return of_bars

    daily_pct = asset.figure("volatility_20d_pct")
    if daily_pct is not None:
        return daily_pct / 100.0 * math.sqrt(year)

    annual_pct = asset.figure("RV_60")
    if annual_pct is not None:
        return annual_pct / 100.0

    return of_bars
