"""Figures of quantstats, empyrical and pyfolio on fixed series, for tests of the tear sheet.

    pip install quantstats==0.0.86 empyrical-reloaded==0.7.1 pyfolio-reloaded==0.10.1
    python tests/support/tear_sheet/other_packages.py > tests/support/tear_sheet/other_packages.json

writes them as JSON. The tests compare with that file, and with the packages where they are installed.
"""

from __future__ import annotations

import json
import sys
import warnings
from importlib.metadata import version
from typing import Any

import numpy as np
import pandas as pd

WINDOW = 20  # days of a rolling figure
PACKAGES = ("quantstats", "empyrical-reloaded", "pyfolio-reloaded")


def cases() -> dict[str, dict[str, Any]]:
    """Series by name: days, daily returns, those of a benchmark, and trading days a year."""
    draw = np.random.Generator(np.random.PCG64(60))
    found = {}
    for name, length, days_a_year in (("sixty", 60, 252), ("long", 300, 242), ("short", 25, 252)):
        market = draw.normal(0.0004, 0.012, length)
        own = 0.8 * market + draw.normal(0.0002, 0.008, length)
        own[length // 3] = 0.0  # a day without a change is neither a hit nor a miss
        if name == "sixty":
            own[0] = -0.02  # below the base from the first day on

        days = np.busday_offset("2023-11-01", np.arange(1, length + 1))
        found[name] = {
            "base_day": "2023-11-01",
            "days": [str(day) for day in days],
            "returns": own.round(6).tolist(),
            "benchmark": market.round(6).tolist(),
            "days_a_year": days_a_year,
        }

    return found


def figures_of(case: dict[str, Any]) -> dict[str, Any]:
    """Figures of one series by package and name."""
    index = pd.DatetimeIndex(case["days"])
    own = pd.Series(case["returns"], index=index)
    market = pd.Series(case["benchmark"], index=index)
    return {
        "quantstats": _quantstats(own, market, case["days_a_year"]),
        "empyrical": _empyrical(own, market, case["days_a_year"]),
        "pyfolio": _pyfolio(own, market, case["base_day"]),
    }


def exposures() -> dict[str, Any]:
    """Positions by day, in money, with pyfolio's net exposure and its shares."""
    from pyfolio import pos

    held = {"A": [0.0, 40.0, 50.0], "B": [30.0, -20.0, 0.0], "cash": [70.0, 85.0, 60.0]}
    positions = pd.DataFrame(held, index=pd.bdate_range("2024-01-02", periods=3))
    return {
        "positions": held,
        "net": pos.get_long_short_pos(positions)["net exposure"].tolist(),
        "shares": {
            name: column.tolist() for name, column in pos.get_percent_alloc(positions).items()
        },
    }


def _quantstats(own: pd.Series, market: pd.Series, days_a_year: int) -> dict[str, Any]:
    from quantstats import stats

    underwater = stats.to_drawdown_series(own)
    details = stats.drawdown_details(underwater).sort_values("max drawdown").head(5)
    rolling = stats.rolling_sharpe(
        own, rolling_period=WINDOW, periods_per_year=days_a_year, prepare_returns=False
    )
    greeks = stats.rolling_greeks(own, market, periods=WINDOW, prepare_returns=False)
    return {
        "total_return": stats.comp(own),
        "cagr": stats.cagr(own, periods=days_a_year),
        "volatility": stats.volatility(own, periods=days_a_year),
        "sharpe": stats.sharpe(own, periods=days_a_year),
        "sortino": stats.sortino(own, periods=days_a_year),
        "max_drawdown": -stats.max_drawdown(own),
        "calmar": stats.calmar(own, periods=days_a_year),
        "hit_rate": stats.win_rate(own),
        "beta": stats.greeks(own, market)["beta"],
        "underwater": underwater.tolist(),
        "rolling_sharpe": _known(rolling),
        "rolling_beta": _known(greeks["beta"]),
        "drawdowns": [
            [row["start"], row["valley"], row["end"], -row["max drawdown"] / 100]
            for _, row in details.iterrows()
        ],
    }


def _empyrical(own: pd.Series, market: pd.Series, days_a_year: int) -> dict[str, Any]:
    import empyrical

    monthly = empyrical.aggregate_returns(own, "monthly")
    yearly = empyrical.aggregate_returns(own, "yearly")
    return {
        "total_return": empyrical.cum_returns_final(own),
        "cagr": empyrical.annual_return(own, annualization=days_a_year),
        "volatility": empyrical.annual_volatility(own, annualization=days_a_year),
        "sharpe": empyrical.sharpe_ratio(own, annualization=days_a_year),
        "sortino": empyrical.sortino_ratio(own, annualization=days_a_year),
        "max_drawdown": -empyrical.max_drawdown(own),
        "calmar": empyrical.calmar_ratio(own, annualization=days_a_year),
        "beta": empyrical.beta(own, market),
        "months": [[*map(int, month), value] for month, value in monthly.items()],
        "years": [[int(year), value] for year, value in yearly.items()],
    }


def _pyfolio(own: pd.Series, market: pd.Series, base_day: str) -> dict[str, Any]:
    from pyfolio import timeseries

    # pyfolio finds the peak among the days it is given, so the base day is one of them.
    with_base = pd.concat([pd.Series([0.0], index=pd.DatetimeIndex([base_day])), own])
    table = timeseries.gen_drawdown_table(with_base, top=5).dropna(subset=["Peak date"])
    return {
        "rolling_sharpe_252": _known(timeseries.rolling_sharpe(own, WINDOW)),
        # its window of n days has n + 1 returns
        "rolling_beta": _known(timeseries.rolling_beta(own, market, WINDOW - 1)),
        "drawdowns": [
            [
                _day(row["Peak date"]),
                _day(row["Valley date"]),
                _day(row["Recovery date"]),
                row["Net drawdown in %"] / 100,
            ]
            for _, row in table.iterrows()
        ],
    }


def _known(series: pd.Series) -> list[float | None]:
    return [None if pd.isna(value) else float(value) for value in series]


def _day(value: Any) -> str | None:
    return None if pd.isna(value) else value.strftime("%Y-%m-%d")


def main() -> None:
    warnings.simplefilter("ignore")
    series = cases()
    content = {
        "versions": {name: version(name) for name in PACKAGES},
        "cases": {name: {**case, "figures": figures_of(case)} for name, case in series.items()},
        "exposures": exposures(),
    }
    json.dump(content, sys.stdout, separators=(",", ":"), default=float)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
