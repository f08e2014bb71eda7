"""Figures for teams that are computed without a model: a technical table, position ratios, and limits scaled by volatility."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ktdeval.harness import label_key, last_object
from ktdeval.masking import figure, render_json
from ktdeval.yamlio import load_yaml
from ktdeval_agents.limits import limit_lines
from ktdeval_agents.sight import Sight, first_number

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
    """Return the largest weight of each asset in the NAV, one a line; empty if no price is shown."""
    return limit_lines(sight, _parameters()["volatility_limits"], {asset: _year(sight, asset) for asset in sight.rows})


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
