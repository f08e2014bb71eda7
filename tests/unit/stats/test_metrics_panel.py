"""The panel against hand-worked figures, independent forms of the same formulas, and degenerate ledgers."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from ktdeval.errors import UsageError
from ktdeval.stats import panel, series
from ktdeval.stats.metric import MetricValue, RuleSet
from ktdeval.trading.ledger import Ledger, StepRecord
from ktdeval.typed import from_plain, to_plain
from metric_cases import CODES, ledger, market, nav_ledger, order, step

MARKET = market()
RULE_SETS: tuple[RuleSet, ...] = ("strict", "paper")
NAVS = [1010, 1000, 900, 990, 1100]


def compute(name: str, of: Ledger, rules: RuleSet = "strict") -> MetricValue:
    return panel.panel_metric(name).compute(of, MARKET, rules)


def value(name: str, of: Ledger, rules: RuleSet = "strict") -> float:
    result = compute(name, of, rules)
    assert result.value is not None, result.reason
    return result.value


def traded(side: str, notional_fen: int, code: str = CODES[0]) -> dict[str, Any]:
    return order(code, side, notional_fen=notional_fen)


# -- returns and risk ---------------------------------------------------------------------------------------------------


def test_total_return_is_last_nav_over_initial_cash() -> None:
    assert value("total_return", nav_ledger(NAVS)) == pytest.approx(0.1, abs=1e-15)


def test_max_drawdown_counts_from_the_running_peak() -> None:
    # The peak of 1010 falls to 900; the later rise to 1100 changes nothing.
    assert value("max_drawdown", nav_ledger(NAVS)) == pytest.approx(110 / 1010, abs=1e-15)


def test_a_fall_on_the_first_day_is_a_drawdown_from_the_initial_cash() -> None:
    assert value("max_drawdown", nav_ledger([800, 900])) == pytest.approx(0.2)


def test_a_rising_nav_has_no_drawdown_but_a_drawdown_value() -> None:
    assert value("max_drawdown", nav_ledger([1000, 1001, 1002])) == 0.0


def test_sharpe_by_hand() -> None:
    # Returns +10 % and 0 %: mean 0.05, sample deviation 0.1/sqrt(2).
    assert value("sharpe", nav_ledger([1100, 1100])) == pytest.approx(0.05 / (0.1 / math.sqrt(2)) * math.sqrt(252), rel=1e-12)


def test_an_index_tracker_has_no_information_ratio() -> None:
    tracker = nav_ledger([101_000, 99_000, 99_000, 102_000, 103_000], 100_000)
    assert compute("information_ratio", tracker).reason == "excess returns have no variance"


def test_a_missing_benchmark_level_leaves_no_information_ratio() -> None:
    gap = market(benchmark=[100.0, 101.0, math.nan, 99.0, 102.0, 103.0])
    result = panel.information_ratio.compute(nav_ledger(NAVS), gap, "strict")
    assert (result.value, result.reason) == (None, "benchmark: a level is missing")


# -- behaviour ----------------------------------------------------------------------------------------------------------


def test_price_drift_alone_is_turnover_for_the_paper_and_none_in_strict() -> None:
    steps = [step(0, 500, {CODES[0]: 500}), step(1, 500, {CODES[0]: 1500})]
    assert value("turnover", ledger(steps)) == 0.0
    assert value("turnover", ledger(steps), "paper") == pytest.approx((0.5 + 0.25) * 252 / 2, rel=1e-12)


def test_hhi_of_equal_holdings_is_one_over_their_number_in_strict() -> None:
    assert value("hhi", ledger([step(0, 800, {CODES[0]: 100, CODES[1]: 100})])) == 0.5


def test_hhi_of_the_paper_takes_weights_of_nav() -> None:
    assert value("hhi", ledger([step(0, 800, {CODES[0]: 100, CODES[1]: 100})]), "paper") == pytest.approx(2 * 0.1**2, rel=1e-12)


def test_all_cash_steps_are_left_out_of_strict_hhi_and_count_zero_in_the_paper() -> None:
    steps = [step(0, 1000), step(1, 900, {CODES[0]: 100})]
    assert compute("hhi", ledger(steps)) == MetricValue(1.0, 1)
    assert value("hhi", ledger(steps), "paper") == pytest.approx(0.1**2 / 2, rel=1e-12)


def test_a_failed_step_is_an_abstention_for_the_paper_and_no_decision_in_strict() -> None:
    steps = [
        step(0, 1000, orders=[order()]),
        step(1, 1000),
        step(2, 1000, provenance="fallback"),
        step(3, 1000, provenance="error"),
    ]
    assert compute("abstention_rate", ledger(steps)) == MetricValue(0.5, 2)
    assert compute("abstention_rate", ledger(steps), "paper") == MetricValue(0.75, 4)


# -- reliability and diagnostics ----------------------------------------------------------------------------------------


def test_parse_failures_are_counted_among_steps_whose_model_calls_worked() -> None:
    provenances = ("model", "model_after_retry", "fallback", "error")
    steps = [step(place, 1000, provenance=provenance) for place, provenance in enumerate(provenances)]
    assert compute("parse_failure_rate", ledger(steps)) == MetricValue(1 / 3, 3)
    assert compute("decision_coverage", ledger(steps)) == MetricValue(0.5, 4)


# -- degenerate ledgers -------------------------------------------------------------------------------------------------

NO_ORDERS = {"ece", "brier", "brier_reliability", "brier_resolution", "brier_uncertainty", "ece_debiased", "reliability_debiased"}
NO_LUCK = {"psr", "min_track_record"}
UNDEFINED: Mapping[str, tuple[Ledger, set[str]]] = {
    "no step": (ledger([]), {metric.name for metric in panel.panel_metrics()} - {"unmask_attempts"}),
    "one day": (nav_ledger([1100]), {"sharpe", "information_ratio", "tool_validity_rate", *NO_ORDERS, *NO_LUCK}),
    "constant NAV": (nav_ledger([1000] * 5), {"sharpe", "tool_validity_rate", *NO_ORDERS, *NO_LUCK}),
    "all cash": (ledger([step(k, 1000) for k in range(5)]), {"sharpe", "hhi", "tool_validity_rate", *NO_ORDERS, *NO_LUCK}),
    "every call failed": (
        ledger([step(k, 1000, provenance="error") for k in range(5)]),
        {"sharpe", "hhi", "tool_validity_rate", "abstention_rate", "parse_failure_rate", *NO_ORDERS, *NO_LUCK},
    ),
    "everything lost": (
        nav_ledger([1000, 0, 0]),
        {
            "total_return",
            "sharpe",
            "max_drawdown",
            "information_ratio",
            "turnover",
            "cash_ratio",
            "tool_validity_rate",
            *NO_ORDERS,
            *NO_LUCK,
        },
    ),
}


@pytest.mark.parametrize("case", UNDEFINED)
def test_what_is_not_defined_is_none_with_a_reason_and_nothing_else_is(case: str) -> None:
    of, expected = UNDEFINED[case]
    results = {metric.name: metric.compute(of, MARKET, "strict") for metric in panel.panel_metrics()}
    assert {name for name, result in results.items() if result.value is None} == expected
    assert all(result.reason for result in results.values() if result.value is None)


@pytest.mark.parametrize("rules", RULE_SETS)
def test_a_constant_nav_has_returns_and_risk_of_zero(rules: RuleSet) -> None:
    flat = nav_ledger([1000] * 5)
    assert [value(name, flat, rules) for name in ("total_return", "max_drawdown")] == [0.0, 0.0]
    assert math.copysign(1, value("total_return", flat, rules)) == 1


def test_a_steady_gain_has_no_sharpe_instead_of_an_astronomic_one() -> None:
    # 10 % every day: rounding leaves a deviation of about 1e-17, which is no risk estimate.
    assert compute("sharpe", nav_ledger([1100, 1210, 1331])).reason == "returns have no variance"


# -- properties ---------------------------------------------------------------------------------------------------------


@st.composite
def ledgers(draw: st.DrawFn) -> Ledger:
    fen = st.integers(10_000, 10_000_000)
    steps = []
    for number in range(draw(st.integers(1, 5))):
        cash = draw(fen)
        holdings = draw(st.dictionaries(st.sampled_from(CODES), fen, max_size=2))
        orders = draw(st.lists(st.builds(traded, st.sampled_from(["BUY", "SELL"]), fen), max_size=3))
        provenance = draw(st.sampled_from(["model", "model_after_retry", "fallback", "error"]))
        calls = draw(st.integers(0, 12))
        valid = draw(st.integers(0, calls))
        changes: dict[str, Any] = {"orders": orders, "provenance": provenance, "tool_calls": calls, "tool_calls_valid": valid}
        steps.append(step(number, cash, holdings, **changes, open_nav_fen=draw(fen)))
    return ledger(steps, draw(fen))


def scaled(of: Ledger, factor: int) -> Ledger:
    """The same episode in another currency: every amount of money times `factor`."""

    def scale(item: Any, name: str = "") -> Any:
        if isinstance(item, dict):
            return {key: scale(entry, key) for key, entry in item.items()}
        if isinstance(item, list):
            return [scale(entry) for entry in item]
        return item * factor if name.endswith("_fen") else item

    steps = from_plain(scale(to_plain(of.steps)), list[StepRecord], "steps")
    return dataclasses.replace(of, initial_cash_minor=of.initial_cash_minor * factor, steps=steps)


@given(ledgers(), st.integers(2, 1000), st.sampled_from(RULE_SETS))
def test_no_metric_depends_on_the_unit_of_money(of: Ledger, factor: int, rules: RuleSet) -> None:
    for metric in panel.panel_metrics():
        before, after = metric.compute(of, MARKET, rules), metric.compute(scaled(of, factor), MARKET, rules)
        assert (before.reason, before.n) == (after.reason, after.n)
        # Sharpe ratios divide by a deviation that may be tiny, so they alone are compared relatively.
        assert after.value == (None if before.value is None else pytest.approx(before.value, rel=1e-6, abs=1e-9))


@given(ledgers(), st.sampled_from(RULE_SETS))
def test_every_value_lies_in_the_range_that_its_metric_states(of: Ledger, rules: RuleSet) -> None:
    for metric in panel.panel_metrics():
        low, high = metric.range
        result = metric.compute(of, MARKET, rules).value
        assert result is None or ((low is None or low <= result) and (high is None or result <= high)), metric.name


def test_every_unit_but_a_ratio_has_a_lower_bound() -> None:
    assert {metric.name for metric in panel.panel_metrics() if metric.range[0] is None} == {"sharpe", "information_ratio"}


@given(ledgers())
def test_strict_hhi_lies_between_equal_weights_and_a_single_name(of: Ledger) -> None:
    most = max(len(record.positions) for record in of.steps)
    result = compute("hhi", of)
    assert result.value is None or 1 / most - 1e-12 <= result.value <= 1


@given(ledgers())
def test_paper_turnover_is_at_most_two_a_step(of: Ledger) -> None:
    assert 0 <= value("turnover", of, "paper") <= 2 * 252


@given(st.lists(st.floats(-0.09, 0.09), min_size=2, max_size=60))
def test_series_formulas_equal_their_plain_numpy_forms(changes: list[float]) -> None:
    returns = np.array(changes)
    nav = np.concatenate([[1.0], np.cumprod(1 + returns)])
    drawdown = max((max(nav[: k + 1]) - nav[k]) / max(nav[: k + 1]) for k in range(len(nav)))
    assert series.max_drawdown(nav).value == pytest.approx(drawdown, abs=1e-12)
    assert series.total_return(nav).value == pytest.approx(np.prod(1 + returns) - 1, abs=1e-12)
    ratio = series.sharpe(returns).value
    if returns.std(ddof=1) > 1e-9:
        assert ratio == pytest.approx(returns.mean() / returns.std(ddof=1) * np.sqrt(252), rel=1e-6)


# -- the table of metrics -----------------------------------------------------------------------------------------------


def test_the_headline_panel_is_the_papers_ten_metrics_in_three_families() -> None:
    headline = [metric.name for metric in panel.panel_metrics() if metric.headline]
    assert headline == [name for names in panel.PANEL_FAMILIES.values() for name in names]
    assert len(headline) == 10
    assert [metric.name for metric in panel.panel_metrics() if not metric.headline] == list(panel.DIAGNOSTICS)


def test_every_metric_names_its_versioned_formula_unit_and_source() -> None:
    for metric in panel.panel_metrics():
        assert metric.formula.startswith(f"{metric.name}/1: ")
        assert metric.unit
        assert metric.source


def test_an_unknown_metric_is_refused_with_near_names() -> None:
    with pytest.raises(UsageError, match="no panel metric 'sharp'; did you mean 'sharpe'"):
        panel.panel_metric("sharp")
