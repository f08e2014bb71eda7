"""Figures that teams are given, worked by hand or against pandas."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ktdeval.market.snapshots.no_market import NO_MARKET
from ktdeval.masking import identities_of
from ktdeval.observation import ObservedAsset, ObservedState, recorded_state
from ktdeval.testing import on_each_row
from ktdeval.values import load_yaml
from ktdeval_agents.computed_signals import (
    annual_volatility,
    average_correlations,
    correlation_factor,
    position_ratios,
    read_ratios,
    scaled_limit,
    technical,
    technical_figures,
    volatility_limits,
)
from support.paths import REPOSITORY

LIMITS = load_yaml(REPOSITORY / "plugins/ktdeval_agents/figures.yaml")["volatility_limits"]


def state_of(**values: Any) -> ObservedState:
    # JSON text may have numbers that no Python float has
    return recorded_state(f"```json\n{json.dumps(values)}\n```")


def table(*rows: dict[str, Any]) -> dict[str, Any]:
    columns = list(rows[0]) if rows else []
    return {"columns": columns, "rows": [[row[name] for name in columns] for row in rows]}


@on_each_row(
    "assets, most",
    (1, 1.0),
    (2, 1.0),
    # round(2/3 · 20)/20 = 13/20
    (3, 0.65),
    (4, 0.5),
    (5, 0.4),
    (10, 0.2),
    (20, 0.1),
    (30, 0.05),
    (100, 0.05),
)
def test_the_grid_of_position_ratios(assets: int, most: float) -> None:
    grid = position_ratios(
        state_of(candidates=table(*({"stock_id": f"a{number}"} for number in range(assets))))
    )

    assert grid == pytest.approx(np.arange(0, most + 0.01, 0.05))
    assert position_ratios(state_of(constraints={"max_positions": assets})) == grid
    assert position_ratios(state_of())[-1] == 1.0


def test_ratios_and_volatility_limits_never_exceed_the_maximum_weight() -> None:
    rows = table({"stock_id": "a", "close": 10.0, "RV_60": 10.0})
    limits = {"max_weight": 0.12}
    state = state_of(candidates=rows, constraints=limits)

    assert position_ratios(state) == (0.0, 0.05, 0.1, 0.12)
    assert "at most 12 % of NAV" in volatility_limits(state)

    free = state_of(candidates=rows, constraints={})
    assert "at most 25 % of NAV" in volatility_limits(free)


def test_decisions_without_a_size_have_no_volatility_limits() -> None:
    rows = table({"stock_id": "a", "close": 10.0, "RV_60": 10.0})
    assert volatility_limits(state_of(candidates=rows, constraints={"hold": "keep"})) == ""


@pytest.mark.parametrize(
    ("text", "ratios"),
    [
        ('{"a": 0.07}', {"a": 0.05}),
        ('first {"a": 0.4} then {"a": 0.1}', {"a": 0.1}),
        ('{"a": 1e999}', {}),
        ('{"a": 1' + "0" * 400 + "}", {}),
        ('{"a": true}', {}),
        ('{"a": NaN}', {}),
        ('{"a": ' + "[" * 100_000 + "}", {}),
        ('{"A ": 0.07}', {"a": 0.05}),
        ('{"b": 0.1}', {}),
        ("[0.1]", {}),
        ("{" * 100_000, {}),
    ],
)
def test_ratios_are_read_from_the_last_object_of_any_reply(
    text: str, ratios: dict[str, float]
) -> None:
    assert read_ratios(
        text, state_of(candidates=table({"stock_id": "a"}, {"stock_id": "c"}))
    ) == pytest.approx(ratios)


def test_one_change_of_a_price_has_no_volatility_and_two_have() -> None:
    assert annual_volatility(ObservedAsset({}), [0.01], 60, 252) is None
    assert annual_volatility(
        ObservedAsset({"volatility_20d_pct": 2.0}), [0.01], 60, 252
    ) == pytest.approx(0.02 * 252**0.5)
    assert annual_volatility(ObservedAsset({}), [0.01, -0.01], 60, 252) == pytest.approx(
        0.01 * 2**0.5 * 252**0.5
    )


def test_prices_that_never_move_are_at_their_mean_and_have_no_volatility() -> None:
    flat = {name: np.full(250, 7.0) for name in ("close", "high", "low", "volume")}
    figures = technical(flat, 252)

    assert {
        name: value
        for name, value in figures.items()
        if name.startswith(("z_", "rsi_", "volatility_", "volume_"))
    } == {
        name: {"z": 0.0, "rsi": 50.0, "volatility": 0.0, "volume": 1.0}[name.partition("_")[0]]
        for name in figures
        if name.startswith(("z_", "rsi_", "volatility_", "volume_"))
    }
    assert {name.partition("_")[0] for name in figures} >= {"z", "rsi", "volatility", "volume"}
    assert (figures["pivot"], figures["support"], figures["resistance"]) == (7.0, 7.0, 7.0)
    assert (figures["bollinger_lower"], figures["bollinger_upper"]) == (7.0, 7.0)


@on_each_row(
    "volatility, limit",
    (0.0, 0.25),
    (0.149, 0.25),
    (0.15, 0.2),
    (0.2, 0.195),
    (0.2999, 0.18501),
    (0.3, 0.15),
    (0.4, 0.14),
    (0.499, 0.1301),
    (0.5, 0.1),
    (2.0, 0.1),
)
def test_a_limit_shrinks_with_volatility(volatility: float, limit: float) -> None:
    assert scaled_limit(volatility, LIMITS) == pytest.approx(limit, abs=1e-12)


@on_each_row(
    "correlation, factor",
    (-1.0, 1.1),
    (-1.0000000002, 1.1),
    (0.1999, 1.1),
    (0.2, 1.05),
    (0.3999, 1.05),
    (0.4, 1.0),
    (0.6, 0.85),
    (0.7999, 0.85),
    (0.8, 0.7),
    (1.0, 0.7),
)
def test_a_limit_shrinks_with_correlation(correlation: float, factor: float) -> None:
    assert correlation_factor(correlation, LIMITS["correlation"]["bands"]) == factor


def test_the_mean_correlation_is_with_positions_over_common_days() -> None:
    # Of a and b deviations from the mean are (-2, -1, 0, 1, 2) and its square less 2: no
    # correlation. c = a, and d never moves.
    days = [f"day_{index}" for index in range(6)]
    a = [-0.02, -0.01, 0.0, 0.01, 0.02]
    b = [0.02, -0.01, -0.02, -0.01, 0.02]
    closes = {
        "a": dict(zip([*days, "day_6"], levels([*a, 0.5]), strict=True)),  # not all have that day
        "b": dict(zip(days, levels(b), strict=True)),
        "c": dict(zip(days, levels(a), strict=True)),
        "d": dict.fromkeys(days, 100.0),
    }

    # of a: with b and c
    assert average_correlations(closes, frozenset("ax"), 5) == pytest.approx(
        {"a": 0.5, "b": 0.0, "c": 1.0}, abs=1e-9
    )
    assert average_correlations(closes, frozenset("bc"), 5) == pytest.approx(
        {"a": 0.5, "b": 0.0, "c": 0.0}, abs=1e-9
    )
    assert average_correlations(closes, frozenset(), 6) == {}
    assert average_correlations({"a": closes["a"]}, frozenset(), 5) == {}
    assert average_correlations({}, frozenset(), 5) == {}


def levels(returns: list[float]) -> list[float]:
    return [100.0, *(100.0 * np.cumprod(1.0 + np.array(returns))).tolist()]


def test_a_correlation_compares_returns_over_the_same_days() -> None:
    """A coin trades on two days on which the stock does not: from Friday to Monday both doubled."""
    coin = levels([0.1, -0.2, 0.25, 0.6, -0.1, 0.3])
    days = [f"day_{index}" for index in range(7)]
    closed = ("day_2", "day_3")
    by_day = dict(zip(days, coin, strict=True))
    stock = {day: close / 7.0 for day, close in by_day.items() if day not in closed}

    found = average_correlations({"coin": by_day, "stock": stock}, frozenset(), 4)
    assert found == pytest.approx({"coin": 1.0, "stock": 1.0})


def test_volatility_comes_from_bars_else_from_the_row_else_is_assumed() -> None:
    shown = {"kind": None, "close": 1.0, "volatility_20d_pct": None, "RV_60": None}
    rows = table(
        {"stock_id": "a", **shown, "kind": "stock", "volatility_20d_pct": 2.0},
        {"stock_id": "c", **shown, "kind": "crypto", "volatility_20d_pct": 2.0},
        {"stock_id": "r", **shown, "RV_60": 16.0},
        {"stock_id": "n", **shown},
        {"stock_id": "b", **shown, "volatility_20d_pct": 2.0},
        {"stock_id": "t", **shown},
        {"stock_id": "x", **shown, "close": None},
    )
    closes = [100.0 * 1.01 ** (index % 2) for index in range(61)]  # up and down by turns
    changes = np.diff(closes) / closes[:-1]
    named = [
        {"stock_id": "b", "day": f"day_{index}", "close": close}
        for index, close in enumerate(closes)
    ]
    bars = table(
        *named,
        *(
            {"stock_id": "t", "day": index, "close": close}
            for index, close in enumerate((100.0, 101.0, 101.0))
        ),
    )
    lines = volatility_limits(state_of(candidates=rows, history=bars)).splitlines()

    assert lines[:4] == [
        # 2 √252; .2 (.75 - .5 (.3175 - .3))
        "- a: annualised volatility 31.7 %, at most 14.8 % of NAV, room for 14.8 % of NAV",
        "- c: annualised volatility 38.2 %, at most 14.2 % of NAV, room for 14.2 % of NAV",  # 2 √365
        "- r: annualised volatility 16 %, at most 19.9 % of NAV, room for 19.9 % of NAV",
        # .05 √252
        (
            "- n: annualised volatility 79.4 % (assumed, none is shown), at most 10 % of NAV, room for"
            " 10 % of NAV"
        ),
    ]
    assert lines[4].startswith(
        f"- b: annualised volatility {100 * np.std(changes, ddof=1) * np.sqrt(252):.3g} %"
    )
    assert (
        lines[5] == "- t: annualised volatility 11.2 %, at most 25 % of NAV, room for 25 % of NAV"
    )  # .01 / √2 √252, of the two that there are
    assert len(lines) == 6
    assert volatility_limits(state_of()) == ""


@pytest.mark.parametrize(("cash", "left"), [(900.0, ("7.5", "17.5")), (50.0, ("5", "5"))])
def test_the_rest_of_a_limit_depends_on_position_cash_and_correlation(
    cash: float, left: tuple[str, str]
) -> None:
    # b moves as a does: r = 1 with what is held, .2 · 1.25 · .7 = 17.5 %; of a alone is held, so it
    # is compared with b.
    closes = (100.0, 100.1, 100.2, 100.1, 100.2, 100.3)
    bars = table(
        *(
            {"stock_id": label, "day": index, "close": closes[index]}
            for label, index in product("ab", range(len(closes)))
        )
    )
    held = table({"stock_id": "a", "weight": -0.10, "last_close": 100.3})
    state = state_of(
        candidates=table({"stock_id": "b", "close": 100.3}),
        positions=held,
        history=bars,
        account={"nav": 1000.0, "cash": cash},
    )
    limits = dict(line[2:].split(": ", 1) for line in volatility_limits(state).splitlines())
    shown = "mean correlation 1.00 (factor 0.7), at most 17.5 % of NAV, room for"

    assert limits["a"].endswith(f"{shown} {left[0]} % of NAV")
    assert limits["b"].endswith(f"{shown} {left[1]} % of NAV")


def test_technical_figures_against_pandas() -> None:
    chance = np.random.default_rng(7)
    close = pd.Series(100 * np.exp(np.cumsum(chance.normal(0, 0.02, 80))))
    high = close * 1.02
    low = close * 0.97
    volume = pd.Series(chance.uniform(1, 2, 80))
    figures = technical(
        {
            "close": close.to_numpy(),
            "high": high.to_numpy(),
            "low": low.to_numpy(),
            "volume": volume.to_numpy(),
        },
        252,
    )
    mean = close.rolling(20).mean().iloc[-1]
    deviation = close.rolling(20).std().iloc[-1]
    gain = close.diff().clip(lower=0).rolling(14).mean().iloc[-1]
    loss = -close.diff().clip(upper=0).rolling(14).mean().iloc[-1]
    pivot = (high + low + close).iloc[-1] / 3

    assert figures == pytest.approx(
        {
            **{
                f"ema_{days}": close.ewm(span=days, adjust=False).mean().iloc[-1]
                for days in (8, 21, 55)
            },
            "bollinger_lower": mean - 2 * deviation,
            "bollinger_upper": mean + 2 * deviation,
            "z_50": (
                (close.iloc[-1] - close.rolling(50).mean().iloc[-1])
                / close.rolling(50).std().iloc[-1]
            ),
            "rsi_14": 100 - 100 / (1 + gain / loss),
            **{
                f"volatility_{d}_pct": 100 * close.pct_change().rolling(d).std().iloc[-1] * 252**0.5
                for d in (21, 63)
            },
            "volume_20": volume.iloc[-1] / volume.tail(20).mean(),
            "pivot": pivot,
            "support": 2 * pivot - high.iloc[-1],
            "resistance": 2 * pivot - low.iloc[-1],
        }
    )


def test_figures_that_need_more_bars_are_left_out() -> None:
    two = [
        {"stock_id": "a", "day": index, "close": close} for index, close in enumerate((10.0, 12.0))
    ]
    empty = {"stock_id": "b", "day": 0, "close": None}
    text = technical_figures(state_of(history=table(*two, empty)))

    assert text == "- a: pivot 12, support 12, resistance 12\n- b: too few bars"

    flat = [{"stock_id": "a", "day": index, "close": 5.0} for index in range(60)]
    figures = technical_figures(state_of(history=table(*flat)))

    assert "z_50 0" in figures
    assert "rsi_14 50" in figures
    assert "volume" not in figures
    assert technical_figures(state_of()) == ""


def test_no_figure_reads_as_a_year() -> None:
    bars = [{"stock_id": "a", "day": index, "close": 2024.3} for index in range(60)]
    figures = technical_figures(state_of(history=table(*bars)))
    assert "ema_8 2024.0, " in figures
    assert not identities_of(NO_MARKET, assets=False, dates=True).has_any(figures)
