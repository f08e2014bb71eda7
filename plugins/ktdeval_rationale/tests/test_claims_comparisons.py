"""Comparisons, views, warnings and research of reasons, judged by what was shown."""

from __future__ import annotations

from typing import Any

import pytest

from ktdeval_rationale.claims import (
    ArguedOrder,
    ShownFacts,
    heeded_warnings,
    judge_reason,
    traced_results,
)

STATE: dict[str, Any] = {
    "candidates": {
        "columns": ["stock_id", "status", "open", "close", "return_20d_pct", "MOM_12_1", "rsi"],
        "rows": [
            ["asset_0042", "trading", 15.09, 15.63, -11.09, 31.6, 28.4],
            ["asset_0007", "limit_up", 7.21, 7.2, -2.4, -25.9, 71.2],
            ["asset_0099", "suspended", 23.5, 24.0, 16.9, 92.4, 55.0],
        ],
    },
}
BUY = ArguedOrder("asset_0042", "BUY", 0.05)


def verdicts(reason: str) -> list[str]:
    return [str(claim.verdict) for claim in judge_reason(reason, [], STATE, [BUY]).comparisons]


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("RSI below 30", "RSI above 30"),
        ("RSI低于30", "RSI高于30"),
        ("It closed above its open.", "It closed below its open."),
        ("higher momentum than asset_0007", "lower momentum than asset_0007"),
        (
            "asset_0042's momentum is lower than asset_0099's.",
            "asset_0042's momentum is higher than asset_0099's.",
        ),
        ("asset_0042的动量高于asset_0007", "asset_0042的动量低于asset_0007"),
        (
            "asset_0099 has the highest momentum of the candidates.",
            "asset_0042 has the highest momentum of the candidates.",
        ),
        (
            "asset_0007 is the cheapest of the candidates.",
            "asset_0099 is the cheapest of the candidates.",
        ),
        ("It has negative 20-day return.", "It has positive 20-day return."),
        (
            "asset_0042 underperformed asset_0007 over 20 days.",
            "asset_0042 outperformed asset_0007 over 20 days.",
        ),
    ],
)
def test_a_comparison_holds_or_not_in_the_state(right: str, wrong: str) -> None:
    assert verdicts(right) == ["right"]
    assert verdicts(wrong) == ["wrong"]


@pytest.mark.parametrize(
    "reason",
    [
        "If RSI falls below 20, I buy more.",
        "I doubt that it has a higher momentum than asset_0099.",
        "It is not the one with the highest momentum of the candidates.",
        "Its volatility is above 90 %.",  # not shown
        "It trades above its 50-day average.",  # no 50 closes were shown
    ],
)
def test_a_comparison_in_doubt_or_without_figures_is_not_scored(reason: str) -> None:
    assert verdicts(reason) in ([], ["unplaced"])


def test_an_average_is_that_of_the_shown_closes() -> None:
    """Closes 10, 11, …, 14: the mean of the last five is 12, and 14 is above it."""
    rows = [["ABC", f"day_{day}", 10.0 + day] for day in range(5)]
    state = {"history": {"columns": ["stock_id", "day", "close"], "rows": rows}}
    order = ArguedOrder("ABC", "BUY")

    def verdict(reason: str) -> str:
        (claim,) = judge_reason(reason, [], state, [order]).comparisons
        return str(claim.verdict)

    assert verdict("It trades above its 5-day average.") == "right"
    assert verdict("It trades below its 5-day average.") == "wrong"


@pytest.mark.parametrize(
    ("reason", "side", "agrees"),
    [
        ("I am bullish on asset_0042.", "BUY", [True]),
        ("I am bullish on asset_0042.", "SELL", [False]),
        ("Overvalued at this price.", "SELL", [True]),
        ("看空该股", "BUY", [False]),
        # of both sides, denied, or no view: a fall argues for either side
        ("Bullish trend, bearish news.", "SELL", []),
        ("I am not bullish.", "SELL", []),
        ("Limited downside.", "BUY", []),
        ("It fell 11 % over 20 days.", "BUY", []),
    ],
)
def test_an_order_agrees_with_the_view_argued_for_it(
    reason: str, side: str, agrees: list[bool]
) -> None:
    order = ArguedOrder("asset_0042", side)
    claims = judge_reason(reason, [], STATE, [order]).directions
    assert [claim.agrees for claim in claims] == agrees


@pytest.mark.parametrize(
    ("order", "outcomes"),
    [
        (ArguedOrder("asset_0099", "BUY"), [("suspended", False)]),
        (ArguedOrder("asset_0007", "BUY"), [("limit_up", False)]),
        (ArguedOrder("asset_0007", "SELL"), [("limit_up", True)]),
        (ArguedOrder("asset_0042", "BUY"), []),
    ],
)
def test_a_warning_is_heeded_unless_an_order_goes_against_it(
    order: ArguedOrder, outcomes: list[tuple[str, bool]]
) -> None:
    found = heeded_warnings(ShownFacts.of([], STATE), [order], frozenset())
    assert [(one.warning, one.is_heeded) for one in found] == outcomes


def test_a_tested_plan_is_heeded_by_a_smaller_order() -> None:
    plan = {
        "stock_id": "asset_0042",
        "side": "BUY",
        "weight_target": 0.2,
        "violation": "weight_limit",
    }
    facts = ShownFacts.of([], STATE)
    for weight, is_heeded in ((0.2, False), (0.1, True)):
        order = ArguedOrder("asset_0042", "BUY", weight)
        (outcome,) = heeded_warnings(facts, [order], frozenset(), [plan])
        assert outcome.is_heeded is is_heeded


def test_research_is_traced_if_it_first_showed_a_cited_name_or_figure() -> None:
    prompts = ["You hold asset_0001."]
    results = ['{"rows":["asset_0042"]}', '{"stock_id":"asset_0042","rv":35.95}', '{"level":99.8}']
    reasons = ["asset_0042: volatility 35.95 %"]

    assert traced_results(prompts, results, reasons, ["asset_0042"]) == [True, True, False]
    assert traced_results(prompts, results, ["I wait."], []) == [False, False, False]


def test_the_judge_reads_what_a_foreign_log_has_shown() -> None:
    """Prompts of other programs: objects by ticker, and text."""
    shown = ['{"AAPL": {"price": 187.2, "rsi": 71.3}, "MSFT": {"price": 402.5, "rsi": 48.0}}']
    scores = judge_reason("AAPL's RSI of 71.3 is higher than MSFT's RSI of 48.", shown)
    assert [str(claim.verdict) for claim in scores.figures] == ["right", "right"]
    assert scores.named == {"AAPL", "MSFT"}
