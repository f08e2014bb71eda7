"""Outcomes of orders, ECE and Brier score against hand-worked cases and an independent form."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from statsmodels.stats.proportion import proportion_confint

from ktdeval.stats import calibration
from ktdeval.stats.calibration import (
    Forecast,
    JudgedOrders,
    brier,
    brier_score,
    brier_terms,
    calibration_bins,
    debiased_calibration_error,
    debiased_reliability,
    ece,
    expected_calibration_error,
    judged_orders,
    pool,
    reliability_points,
)  # fmt: skip
from ktdeval.trading.ledger import Ledger
from support.figures.metric_cases import CODES, DAYS, ledger, market, nav_ledger, order, step

# The first asset opens one CNY higher each day, the second one CNY lower.
MARKET = market()
HAND = [Forecast(0.62, True), Forecast(0.68, False), Forecast(0.95, True)]


def one_step(*orders: object, number: int = 0) -> Ledger:
    return ledger([step(number, 1000, orders=list(orders))])


FALLING = CODES[1]
# Two for one on the third day: the price halves, the factor doubles, and the adjusted open rises by
# 5 %: a split is no loss.
SPLIT = market(
    opens=[[10.0, 10.0]] * 2 + [[5.25, 10.0]] * 4, factor=[[1.0, 1.0]] * 2 + [[2.0, 1.0]] * 4
)
SUSPENDED = market(opens=[[math.nan if day == 2 else 10.0 + day, 20.0] for day in range(len(DAYS))])
JUDGED = [  # orders, market, successes, without a fill, without a next open
    (
        [order(side="BUY"), order(side="SELL"), order(FALLING, "BUY"), order(FALLING, "SELL")],
        MARKET,
        [1, 0, 0, 1],
        0,
        0,
    ),
    (
        [order(side="BUY"), order(side="SELL")],
        market(opens=[[10.0, 10.0]] * len(DAYS)),
        [0, 0],
        0,
        0,
    ),
    ([order(side="BUY")], SPLIT, [1], 0, 0),
    (
        [order(filled=0), order(None, filled=0), order(status="partially_filled", rule="cash")],
        MARKET,
        [1],
        2,
        0,
    ),
    ([order()], SUSPENDED, [], 0, 1),
]


@pytest.mark.parametrize(("orders", "of", "successes", "no_fill", "no_next_open"), JUDGED)
def test_an_order_succeeds_by_the_next_open(orders, of, successes, no_fill, no_next_open) -> None:  # type: ignore[no-untyped-def]
    forecasts = tuple(Forecast(0.6, bool(success)) for success in successes)
    assert judged_orders(one_step(*orders), of) == JudgedOrders(forecasts, no_fill, no_next_open)


def test_orders_of_the_last_day_have_no_next_open() -> None:
    assert judged_orders(one_step(order(), number=len(DAYS) - 2), MARKET) == JudgedOrders(
        (), no_fill=0, no_next_open=1
    )

    left = JudgedOrders((Forecast(0.5, True),), 1, 2)
    right = JudgedOrders((Forecast(0.7, False),), 3, 4)

    assert pool([left, right]) == JudgedOrders((Forecast(0.5, True), Forecast(0.7, False)), 4, 6)


def test_ece_by_hand() -> None:
    # Bin 0.6: mean 0.65, accuracy 1/2, gap 0.15, two of three. Bin 0.9: 0.95 against 1, gap 0.05,
    # one of three.
    assert expected_calibration_error(HAND).value == pytest.approx(
        2 / 3 * 0.15 + 1 / 3 * 0.05, rel=1e-12
    )


@pytest.mark.parametrize(
    ("confidence", "low"),
    [(0.0, 0.0), (0.1, 0.1), (0.3, 0.3), (0.7, 0.7), (0.29999999999999993, 0.2), (1.0, 0.9)],
)
def test_a_confidence_on_an_edge_belongs_to_the_bin_that_it_opens(
    confidence: float, low: float
) -> None:
    assert [entry.low for entry in calibration_bins([Forecast(confidence, True)])] == [low]


def test_episode_without_filled_orders_has_no_calibration() -> None:
    result = ece.compute(one_step(order(filled=0)), MARKET, "strict")
    assert (result.value, result.n, result.reason) == (None, 0, "no filled order with a next open")
    assert result.detail == {"bins": [], "n": 0, "no_fill": 1, "no_next_open": 0}
    assert brier.compute(one_step(order(filled=0)), MARKET, "strict").value is None


forecast_lists = st.lists(
    st.builds(Forecast, st.floats(0, 1), st.booleans()), min_size=1, max_size=60
)


@pytest.mark.slow
@given(forecast_lists)
def test_ece_equals_the_form_of_guo_2017_in_numpy(forecasts: list[Forecast]) -> None:
    confidence = np.array([forecast.confidence for forecast in forecasts])
    success = np.array([forecast.success for forecast in forecasts], dtype=float)
    edges = np.array([0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9])
    places = np.searchsorted(edges, confidence, side="right")
    gaps = [
        np.sum(places == k) * abs(confidence[places == k].mean() - success[places == k].mean())
        for k in np.unique(places)
    ]

    assert expected_calibration_error(forecasts).value == pytest.approx(
        sum(gaps) / len(forecasts), abs=1e-12
    )
    assert brier_score(forecasts).value == pytest.approx(
        np.mean((confidence - success) ** 2), abs=1e-12
    )
    assert expected_calibration_error(forecasts) == expected_calibration_error(forecasts[::-1])
    # The mean confidence less the accuracy bounds it from below.
    assert (
        abs((confidence - success).mean()) - 1e-12
        <= (expected_calibration_error(forecasts).value or 0.0)
        <= 1
    )


# -- terms of the Brier score
# -------------------------------------------------------------------------------------------


def test_terms_by_hand() -> None:
    # Bin 0.6: mean 0.65, accuracy 1/2, two of three. Bin 0.9: 0.95 against 1. Base rate 2/3.
    terms = brier_terms(HAND)
    assert terms is not None
    assert terms.reliability == pytest.approx(2 / 3 * 0.15**2 + 1 / 3 * 0.05**2)
    assert terms.resolution == pytest.approx(2 / 3 * (1 / 6) ** 2 + 1 / 3 * (1 / 3) ** 2)
    assert terms.uncertainty == pytest.approx(2 / 9)
    # Deviations -0.03 and 0.03 of confidence, 1/2 and -1/2 of success.
    assert terms.within == pytest.approx((2 * 0.03**2 + 2 * 2 * 0.03 * 0.5) / 3)

    constant = brier_terms([Forecast(0.6, success) for success in (True, True, False)])
    assert constant is not None
    assert constant.resolution == pytest.approx(0, abs=1e-16)


@pytest.mark.slow
@given(forecast_lists)
def test_the_terms_add_up_to_the_brier_score(forecasts: list[Forecast]) -> None:
    terms = brier_terms(forecasts)
    assert terms is not None

    total = terms.reliability - terms.resolution + terms.uncertainty + terms.within
    assert total == pytest.approx(brier_score(forecasts).value, abs=1e-14)
    assert 0 <= terms.reliability <= 1
    assert 0 <= terms.resolution <= terms.uncertainty + 1e-15 <= 0.25 + 1e-15


# -- debiased ECE
# -------------------------------------------------------------------------------------------------------


def test_debiased_ece_by_hand() -> None:
    # Bin 0.6: gap 0.15 of an accuracy 1/2 with spread sqrt(1/8); bin 0.9 holds one success and has
    # no spread.
    spread = math.sqrt(0.125)
    gap = 0.15
    folded = spread * math.sqrt(2 / math.pi) * math.exp(
        -((gap / spread) ** 2) / 2
    ) + gap * math.erf(gap / spread / math.sqrt(2))
    bias = 2 / 3 * (folded - gap)
    plain = 2 / 3 * 0.15 + 1 / 3 * 0.05
    debiased = debiased_calibration_error(HAND)

    assert debiased.detail == pytest.approx({"plain": plain, "bias": bias})
    assert debiased.value == pytest.approx(plain - bias)


@pytest.mark.slow
@given(forecast_lists)
def test_debiased_ece_is_between_zero_and_ece(forecasts: list[Forecast]) -> None:
    debiased = debiased_calibration_error(forecasts)
    plain = expected_calibration_error(forecasts).value

    assert debiased.value is not None
    assert plain is not None
    assert 0 <= debiased.value <= plain + 1e-15
    assert debiased == debiased_calibration_error(forecasts[::-1])


def sample(rng: np.random.Generator, shift: float, n: int = 120) -> list[Forecast]:
    """Orders whose confidences are too high by `shift`."""
    confidence = 0.35 + 0.1 * rng.integers(0, 5, n)
    success = rng.random(n) < confidence - shift

    return [
        Forecast(float(stated), bool(right))
        for stated, right in zip(confidence, success, strict=True)
    ]


@pytest.mark.parametrize("shift", [0.0, 0.05, 0.15, 0.3])
def test_debiased_reliability_is_right_on_average(shift: float) -> None:
    rng = np.random.default_rng(0)
    figures = [debiased_reliability(sample(rng, shift)).value or 0.0 for _ in range(200)]
    assert np.mean(figures) == pytest.approx(shift**2, abs=4 * np.std(figures) / math.sqrt(200))


def test_debiasing_brings_ece_nearer_to_its_true_value() -> None:
    rng = np.random.default_rng(0)
    samples = [sample(rng, 0.0) for _ in range(200)]
    plain = np.mean([expected_calibration_error(each).value for each in samples])
    assert 0 < np.mean([debiased_calibration_error(each).value for each in samples]) < 0.67 * plain


@pytest.mark.parametrize("shift", [0.05, 0.15, 0.3])
def test_debiased_calibration_error_is_nearly_unbiased_if_miscalibrated(
    shift: float,
) -> None:
    rng = np.random.default_rng(0)
    figures = [debiased_calibration_error(sample(rng, shift)).value for _ in range(200)]
    assert np.mean(figures) == pytest.approx(shift, abs=0.012)


def test_debiased_reliability_by_hand_and_at_the_edges() -> None:
    # Of the three orders one is alone in its bin; the others: gap 0.15, accuracy 1/2, so 0.0225 -
    # 0.25.
    assert debiased_reliability(HAND).value == pytest.approx(0.0225 - 0.25)
    assert debiased_reliability(HAND).n == 2
    assert debiased_reliability(HAND[1:]).reason == "no bin holds two orders"
    assert debiased_reliability([]).reason == "no filled order with a next open"
    assert (
        debiased_reliability([]).n,
        debiased_reliability(HAND[1:]).n,
        debiased_calibration_error([]).n,
    ) == (0, 0, 0)


# -- diagram
# ------------------------------------------------------------------------------------------------------------


@pytest.mark.exhaustive
@given(forecast_lists)
def test_points_of_the_diagram_have_wilson_intervals(forecasts: list[Forecast]) -> None:
    points = reliability_points(forecasts)
    ends = ("accuracy_low", "accuracy_high")

    assert [
        {name: value for name, value in point.items() if name not in ends} for point in points
    ] == [entry.to_json() for entry in calibration_bins(forecasts)]
    assert points

    for point in points:
        low, high = proportion_confint(
            round(point["accuracy"] * point["n"]), point["n"], method="wilson"
        )
        assert (point["accuracy_low"], point["accuracy_high"]) == pytest.approx(
            (low, high), abs=1e-10
        )
        assert 0 <= point["accuracy_low"] <= point["accuracy"] + 1e-15
        assert point["low"] <= point["mean_confidence"] <= point["high"]


def test_points_by_hand() -> None:
    one, other = reliability_points(HAND)
    assert (one["n"], one["accuracy"], other["n"], other["accuracy"]) == (2, 0.5, 1, 1.0)

    # Wilson: centre (k + z^2/2) / (n + z^2), here 1/2 of two, and of one of one 1 / (1 + z^2) to 1.
    z = 1.959963984540054
    assert (other["accuracy_low"], other["accuracy_high"]) == pytest.approx((1 / (1 + z * z), 1.0))

    half = z / (2 + z * z) * math.sqrt(0.5 + z * z / 4)
    assert (one["accuracy_low"], one["accuracy_high"]) == pytest.approx((0.5 - half, 0.5 + half))
    assert reliability_points([]) == []


# -- as metrics
# ---------------------------------------------------------------------------------------------------------


def test_without_orders_nothing_is_defined() -> None:
    assert brier_terms([]) is None
    assert debiased_calibration_error([]).reason == "no filled order with a next open"

    figure = calibration.ece_debiased.compute(nav_ledger([1000]), MARKET, "paper")
    assert (figure.value, figure.reason, figure.detail) == (
        None,
        "no filled order with a next open",
        {"bins": [], "n": 0, "no_fill": 0, "no_next_open": 0},
    )


def test_two_ledgers_are_not_confused() -> None:
    rising, falling = (ledger([step(0, 1000, orders=[order(code)])]) for code in CODES)
    assert (
        brier.compute(rising, MARKET, "strict").value,
        brier.compute(falling, MARKET, "strict").value,
    ) == pytest.approx((0.16, 0.36))

    other = market(opens=[[20.0 - day, 10.0 + day] for day in range(6)])
    assert brier.compute(rising, other, "strict").value == pytest.approx(0.36)
