"""Outcomes of orders, ECE and Brier score against hand-worked cases and an independent form."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from ktdeval.stats.calibration import (
    Forecast,
    JudgedOrders,
    brier,
    brier_score,
    calibration_bins,
    ece,
    expected_calibration_error,
    judged_orders,
    pool,
)
from ktdeval.trading.ledger import Ledger
from metric_cases import CODES, DAYS, ledger, market, order, step

# The first asset opens one CNY higher each day, the second one CNY lower.
MARKET = market()


def one_step(*orders: object, number: int = 0) -> Ledger:
    return ledger([step(number, 1000, orders=list(orders))])


def outcomes(*orders: object, number: int = 0) -> list[bool]:
    return [forecast.success for forecast in judged_orders(one_step(*orders, number=number), MARKET).forecasts]


def test_a_buy_succeeds_when_the_next_open_is_higher_and_a_sell_when_it_is_lower() -> None:
    rising, falling = CODES
    assert outcomes(order(rising, "BUY"), order(rising, "SELL"), order(falling, "BUY"), order(falling, "SELL")) == [
        True,
        False,
        False,
        True,
    ]


def test_an_unchanged_open_is_no_success_for_either_side() -> None:
    flat = market(opens=[[10.0, 10.0]] * len(DAYS))
    judged = judged_orders(one_step(order(side="BUY"), order(side="SELL")), flat)
    assert [forecast.success for forecast in judged.forecasts] == [False, False]


def test_a_split_is_no_loss() -> None:
    # Two for one on the third day: the price halves, the factor doubles, and the adjusted open rises by 5 %.
    opens = [[10.0, 10.0], [10.0, 10.0], [5.25, 10.0], [5.25, 10.0], [5.25, 10.0], [5.25, 10.0]]
    factor = [[1.0, 1.0], [1.0, 1.0], [2.0, 1.0], [2.0, 1.0], [2.0, 1.0], [2.0, 1.0]]
    judged = judged_orders(one_step(order(side="BUY")), market(opens=opens, factor=factor))
    assert judged.forecasts == (Forecast(0.6, True),)


def test_orders_without_a_fill_are_left_out_and_counted() -> None:
    judged = judged_orders(one_step(order(filled=0), order(None, filled=0), order(status="partially_filled", rule="cash")), MARKET)
    assert judged == JudgedOrders((Forecast(0.6, True),), no_fill=2, no_next_open=0)


def test_orders_of_the_snapshots_last_day_have_no_next_open() -> None:
    judged = judged_orders(one_step(order(), number=len(DAYS) - 2), MARKET)
    assert judged == JudgedOrders((), no_fill=0, no_next_open=1)


def test_a_name_suspended_on_the_next_day_has_no_next_open() -> None:
    opens = [[10.0 + day, 20.0] for day in range(len(DAYS))]
    opens[2][0] = math.nan
    assert judged_orders(one_step(order()), market(opens=opens)).no_next_open == 1


def test_ece_by_hand() -> None:
    # Bin 0.6: mean 0.65, accuracy 1/2, gap 0.15, two of three. Bin 0.9: 0.95 against 1, gap 0.05, one of three.
    forecasts = [Forecast(0.62, True), Forecast(0.68, False), Forecast(0.95, True)]
    assert expected_calibration_error(forecasts).value == pytest.approx(2 / 3 * 0.15 + 1 / 3 * 0.05, rel=1e-12)


@pytest.mark.parametrize(
    ("confidence", "low"), [(0.0, 0.0), (0.1, 0.1), (0.3, 0.3), (0.7, 0.7), (0.29999999999999993, 0.2), (1.0, 0.9)]
)
def test_a_confidence_on_an_edge_belongs_to_the_bin_that_it_opens(confidence: float, low: float) -> None:
    assert [entry["low"] for entry in calibration_bins([Forecast(confidence, True)])] == [low]


def test_an_episode_without_filled_orders_has_no_calibration_but_says_what_was_left_out() -> None:
    result = ece.compute(one_step(order(filled=0)), MARKET, "strict")
    assert (result.value, result.n, result.reason) == (None, 0, "no filled order with a next open")
    assert result.detail == {"bins": [], "n": 0, "no_fill": 1, "no_next_open": 0}
    assert brier.compute(one_step(order(filled=0)), MARKET, "strict").value is None


forecast_lists = st.lists(st.builds(Forecast, st.floats(0, 1), st.booleans()), min_size=1, max_size=200)


@given(forecast_lists)
def test_ece_equals_the_form_of_guo_2017_in_numpy(forecasts: list[Forecast]) -> None:
    confidence = np.array([forecast.confidence for forecast in forecasts])
    success = np.array([forecast.success for forecast in forecasts], dtype=float)
    edges = np.array([0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9])
    places = np.searchsorted(edges, confidence, side="right")
    gaps = [np.sum(places == k) * abs(confidence[places == k].mean() - success[places == k].mean()) for k in np.unique(places)]
    assert expected_calibration_error(forecasts).value == pytest.approx(sum(gaps) / len(forecasts), abs=1e-12)
    assert brier_score(forecasts).value == pytest.approx(np.mean((confidence - success) ** 2), abs=1e-12)


@given(forecast_lists)
def test_ece_does_not_depend_on_the_order_of_forecasts(forecasts: list[Forecast]) -> None:
    assert expected_calibration_error(forecasts) == expected_calibration_error(forecasts[::-1])


@given(forecast_lists)
def test_mean_confidence_less_accuracy_bounds_ece_from_below(forecasts: list[Forecast]) -> None:
    gap = abs(sum(forecast.confidence - forecast.success for forecast in forecasts)) / len(forecasts)
    assert gap - 1e-12 <= (expected_calibration_error(forecasts).value or 0.0) <= 1


def test_pooling_keeps_every_forecast_and_every_exclusion() -> None:
    left, right = JudgedOrders((Forecast(0.5, True),), 1, 2), JudgedOrders((Forecast(0.7, False),), 3, 4)
    assert pool([left, right]) == JudgedOrders((Forecast(0.5, True), Forecast(0.7, False)), 4, 6)
