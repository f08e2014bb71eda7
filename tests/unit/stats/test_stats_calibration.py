"""Terms of the Brier score, debiased ECE and the reliability diagram."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from statsmodels.stats.proportion import proportion_confint

from ktdeval.stats import calibration
from ktdeval.stats.calibration import (
    Forecast,
    brier,
    brier_score,
    brier_terms,
    debiased_calibration_error,
    debiased_reliability,
    ece,
    expected_calibration_error,
    reliability_points,
)
from metric_cases import CODES, ledger, market, nav_ledger, order, step

MARKET = market()
HAND = [Forecast(0.62, True), Forecast(0.68, False), Forecast(0.95, True)]
forecast_lists = st.lists(st.builds(Forecast, st.floats(0, 1), st.booleans()), min_size=1, max_size=200)


def test_terms_by_hand() -> None:
    # Bin 0.6: mean 0.65, accuracy 1/2, two of three. Bin 0.9: 0.95 against 1. Base rate 2/3.
    terms = brier_terms(HAND)
    assert terms is not None
    assert terms.reliability == pytest.approx(2 / 3 * 0.15**2 + 1 / 3 * 0.05**2)
    assert terms.resolution == pytest.approx(2 / 3 * (1 / 6) ** 2 + 1 / 3 * (1 / 3) ** 2)
    assert terms.uncertainty == pytest.approx(2 / 9)
    # Deviations -0.03 and 0.03 of confidence, 1/2 and -1/2 of success.
    assert terms.within == pytest.approx((2 * 0.03**2 + 2 * 2 * 0.03 * 0.5) / 3)


@given(forecast_lists)
def test_the_terms_add_up_to_the_brier_score(forecasts: list[Forecast]) -> None:
    terms = brier_terms(forecasts)
    assert terms is not None
    total = terms.reliability - terms.resolution + terms.uncertainty + terms.within
    assert total == pytest.approx(brier_score(forecasts).value, abs=1e-14)
    assert 0 <= terms.reliability <= 1
    assert 0 <= terms.resolution <= terms.uncertainty + 1e-15 <= 0.25 + 1e-15


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans()), min_size=1, max_size=100))
def test_with_one_confidence_a_bin_murphys_three_terms_suffice(pairs: list[tuple[int, bool]]) -> None:
    forecasts = [Forecast((place + 0.5) / 10, success) for place, success in pairs]
    terms = brier_terms(forecasts)
    assert terms is not None
    assert terms.within == pytest.approx(0, abs=1e-15)
    assert brier_score(forecasts).value == pytest.approx(terms.reliability - terms.resolution + terms.uncertainty, abs=1e-14)


def test_a_constant_confidence_has_no_resolution() -> None:
    terms = brier_terms([Forecast(0.6, success) for success in (True, True, False)])
    assert terms is not None
    assert terms.resolution == pytest.approx(0, abs=1e-16)


# -- debiased ECE -------------------------------------------------------------------------------------------------------


def test_debiased_ece_by_hand() -> None:
    # Bin 0.6: gap 0.15 of an accuracy 1/2 with spread sqrt(1/8); bin 0.9 holds one success and has no spread.
    spread, gap = math.sqrt(0.125), 0.15
    folded = spread * math.sqrt(2 / math.pi) * math.exp(-((gap / spread) ** 2) / 2) + gap * math.erf(gap / spread / math.sqrt(2))
    bias, plain = 2 / 3 * (folded - gap), 2 / 3 * 0.15 + 1 / 3 * 0.05
    found = debiased_calibration_error(HAND)
    assert found.detail == pytest.approx({"plain": plain, "bias": bias})
    assert found.value == pytest.approx(plain - bias)


def test_the_mean_of_a_folded_normal_is_that_of_its_draws() -> None:
    draws = np.abs(np.random.default_rng(0).normal(0.1, 0.2, 2_000_000)).mean()
    assert calibration._folded_mean(0.1, 0.2) == pytest.approx(draws, rel=2e-3)
    assert calibration._folded_mean(0.1, 0.0) == 0.1


@given(forecast_lists)
def test_debiased_ece_lies_between_zero_and_ece(forecasts: list[Forecast]) -> None:
    found, plain = debiased_calibration_error(forecasts), expected_calibration_error(forecasts).value
    assert found.value is not None
    assert plain is not None
    assert 0 <= found.value <= plain + 1e-15
    assert found == debiased_calibration_error(forecasts[::-1])


def sample(rng: np.random.Generator, shift: float, n: int = 120) -> list[Forecast]:
    """Orders whose confidences are too high by `shift`."""
    confidence = 0.35 + 0.1 * rng.integers(0, 5, n)
    success = rng.random(n) < confidence - shift
    return [Forecast(float(stated), bool(right)) for stated, right in zip(confidence, success, strict=True)]


@pytest.mark.parametrize("shift", [0.0, 0.05, 0.15, 0.3])
def test_debiased_reliability_is_right_on_average(shift: float) -> None:
    rng = np.random.default_rng(0)
    found = [debiased_reliability(sample(rng, shift)).value or 0.0 for _ in range(400)]
    assert np.mean(found) == pytest.approx(shift**2, abs=4 * np.std(found) / math.sqrt(400))


def test_ece_of_a_calibrated_model_is_nearer_to_zero_when_debiased() -> None:
    rng = np.random.default_rng(0)
    samples = [sample(rng, 0.0) for _ in range(200)]
    plain = np.mean([expected_calibration_error(each).value for each in samples])
    debiased = np.mean([debiased_calibration_error(each).value for each in samples])
    assert 0 < debiased < 0.67 * plain


@pytest.mark.parametrize("shift", [0.05, 0.15, 0.3])
def test_debiasing_takes_little_too_much_from_a_miscalibrated_model(shift: float) -> None:
    rng = np.random.default_rng(0)
    found = [debiased_calibration_error(sample(rng, shift)).value for _ in range(200)]
    assert np.mean(found) == pytest.approx(shift, abs=0.012)


def test_debiased_reliability_by_hand_and_at_the_edges() -> None:
    # Of the three orders one is alone in its bin; the others: gap 0.15, accuracy 1/2, so 0.0225 - 0.25.
    assert debiased_reliability(HAND).value == pytest.approx(0.0225 - 0.25)
    assert debiased_reliability(HAND).n == 2
    assert debiased_reliability(HAND[1:]).reason == "no bin holds two orders"
    assert debiased_reliability([]).reason == "no filled order with a next open"


# -- diagram ------------------------------------------------------------------------------------------------------------


@given(forecast_lists)
def test_points_of_the_diagram_have_wilson_intervals(forecasts: list[Forecast]) -> None:
    for point in reliability_points(forecasts):
        low, high = proportion_confint(round(point["accuracy"] * point["n"]), point["n"], method="wilson")
        assert (point["accuracy_low"], point["accuracy_high"]) == pytest.approx((low, high), abs=1e-10)
        assert 0 <= point["accuracy_low"] <= point["accuracy"] + 1e-15
        assert point["low"] <= point["mean_confidence"] <= point["high"]


# -- as metrics ---------------------------------------------------------------------------------------------------------


def test_metrics_of_an_episode_agree_with_each_other() -> None:
    orders = [
        order(CODES[number % 2], "BUY" if number % 3 else "SELL", confidence=0.5 + number / 30, filled=100 * (number != 4))
        for number in range(12)
    ]
    of = ledger([step(0, 1000, orders=orders[:6]), step(1, 1000, orders=orders[6:])])
    terms = [
        function.compute(of, MARKET, "strict").value
        for function in (calibration.brier_reliability, calibration.brier_resolution, calibration.brier_uncertainty)
    ]
    expected = brier_terms(calibration.judged_orders(of, MARKET).forecasts)
    assert expected is not None
    assert terms == list(expected[:3])
    assert brier.compute(of, MARKET, "strict").value == pytest.approx(terms[0] - terms[1] + terms[2] + expected.within)
    found, plain = calibration.ece_debiased.compute(of, MARKET, "strict"), ece.compute(of, MARKET, "strict")
    assert found.detail["plain"] == plain.value
    assert {name: found.detail[name] for name in plain.detail} == plain.detail


def test_without_orders_nothing_is_defined() -> None:
    assert brier_terms([]) is None
    assert debiased_calibration_error([]).reason == "no filled order with a next open"
    found = calibration.ece_debiased.compute(nav_ledger([1000]), MARKET, "paper")
    assert (found.value, found.reason, found.detail) == (
        None,
        "no filled order with a next open",
        {"bins": [], "n": 0, "no_fill": 0, "no_next_open": 0},
    )


def test_two_ledgers_are_not_confused() -> None:
    rising, falling = (ledger([step(0, 1000, orders=[order(code)])]) for code in CODES)
    assert (brier.compute(rising, MARKET, "strict").value, brier.compute(falling, MARKET, "strict").value) == pytest.approx(
        (0.16, 0.36)
    )
    other = market(opens=[[20.0 - day, 10.0 + day] for day in range(6)])
    assert brier.compute(rising, other, "strict").value == pytest.approx(0.36)
