"""Figures of reasons, judged by what was shown: examples worked by hand."""

from __future__ import annotations

from typing import Any

import pytest

from ktdeval_rationale.claims import ArguedOrder, FigureClaim, judge_reason
from ktdeval_rationale.claims.text_figures import normalise_text, text_figures

STATE: dict[str, Any] = {
    "account": {"cash_cny": 39230.8, "nav_cny": 1006650.0, "cash_weight": 0.039},
    "candidates": {
        "columns": [
            *("stock_id", "open_cny", "close_cny", "return_5d_pct", "return_20d_pct"),
            *("drawdown_60d_pct", "MOM_12_1", "RV_60"),
        ],
        "rows": [
            ["asset_0042", 15.09, 15.63, 8.017, -11.09, -2.785, 31.6, 35.95],
            ["asset_0007", 7.01, 7.2, 5.882, -2.439, -13.67, -25.9, 29.04],
        ],
    },
}
BUY = ArguedOrder("asset_0042", "BUY", 0.05)


def figures(reason: str, *orders: ArguedOrder) -> list[FigureClaim]:
    return list(judge_reason(reason, [], STATE, orders or (BUY,)).figures)


def verdicts(reason: str, *orders: ArguedOrder) -> list[str]:
    return [str(claim.verdict) for claim in figures(reason, *orders)]


@pytest.mark.parametrize(
    ("reason", "verdict"),
    [
        # 31.6 as shown; to fewer digits; cut; as a fraction of 1
        ("Momentum is 31.6 %.", "right"),
        ("Momentum of 32 %.", "right"),
        ("MOM_12_1 = 0.316", "right"),
        ("Momentum is 41.6 %.", "wrong"),
        ("Momentum is 31.7 %.", "wrong"),
        # -11.09: the sign is in the figure, or in the words
        ("20-day return of -11.1 %.", "right"),
        ("20-day decline of 11.1 %.", "right"),
        ("down 11.1 % over 20 days", "right"),
        ("up 11.1 % over 20 days", "wrong"),
        ("20-day return of 11.1 %.", "wrong"),
        # a distance below is printed with either sign
        ("2.8 % below its 60-day high", "right"),
        ("60-day drawdown of -2.8 %.", "right"),
        # ranges and hedges
        ("Momentum of 30-35 %.", "right"),
        ("Momentum of 35-40 %.", "wrong"),
        ("Momentum of about 30 %.", "right"),
        # Chinese
        ("动量为31.6%", "right"),
        ("动量为41.6%", "wrong"),
        ("近5日上涨8.0%", "right"),
        ("近5日下跌8.0%", "wrong"),
    ],
)
def test_a_placed_figure_is_right_within_half_a_unit_of_its_last_digit(
    reason: str, verdict: str
) -> None:
    assert verdicts(reason) == [verdict]


@pytest.mark.parametrize(
    "text", ["39,231", "39.2k", "CNY 39,231", "3.9万", "about 39,000", "¥39,230.80"]
)
def test_money_is_read_in_every_spelling(text: str) -> None:
    assert verdicts(f"Cash is {text}.") == ["right"]
    assert verdicts("Cash is 49,231.") == ["wrong"]


@pytest.mark.parametrize(
    "reason",
    [
        "If momentum falls to 20 %, I sell.",
        "A momentum of 20 % would change my mind.",
        "It lacks the momentum of 50 % that a breakout has.",
        "Momentum was 20 % last month.",
        "Momentum is not 20 %.",
        "Peers have momentum of 20 %.",
        "The P/E is 12.5.",  # not shown
        "Price 3 %.",  # of another unit
        "Target weight 4.9 %, stop at 14.2.",
    ],
)
def test_a_figure_that_states_nothing_of_the_state_is_never_scored(reason: str) -> None:
    assert set(verdicts(reason)) == {"unplaced"}


def test_a_figure_belongs_to_the_asset_that_its_sentence_names() -> None:
    """31.6 is asset_0042's momentum, -25.9 asset_0007's."""
    assert verdicts("asset_0007 has momentum of -25.9 %.") == ["right"]
    assert verdicts("asset_0007 has momentum of 31.6 %.") == ["wrong"]
    assert verdicts("Momentum is -25.9 % for asset_0007.") == ["right"]


def test_a_figure_of_one_of_several_assets_is_not_called_wrong() -> None:
    two = [BUY, ArguedOrder("asset_0007", "BUY")]
    assert verdicts("asset_0042 and asset_0007 have momentum of 44 %.", *two) == ["unplaced"]
    assert verdicts("Momentum is 44 %.", *two) == ["unplaced"]


def test_one_step_of_arithmetic_between_figures_of_the_sentence_is_right() -> None:
    """15.63 / 15.09 - 1 = 3.58 %; 15.63 - 15.09 = 0.54."""
    claims = figures("It moved from 15.09 to 15.63, a gain of 3.6 %.")
    assert [str(claim.verdict) for claim in claims] == ["unplaced", "unplaced", "right"]
    assert claims[-1].quantity == "derived"

    assert verdicts("From 15.09 to 15.63 is a change of 0.54.")[-1] == "right"
    assert verdicts("It moved from 15.09 to 15.63, a gain of 4.6 %.")[-1] == "unplaced"


def test_a_figure_was_shown_if_a_shown_number_rounds_to_it() -> None:
    shown = ['{"stock_id":"asset_0042","MOM_12_1":31.62}', "The index fell 2.37 % today."]
    claims = judge_reason("31.6, 31.7, 2.4 %, 2.3 %", shown, None, [BUY]).figures
    assert [claim.is_shown for claim in claims] == [True, False, True, False]


def test_names_windows_and_numbers_of_lists_are_no_figures() -> None:
    assert not text_figures("asset_0042 on 2024-03-01, day_+5, a 20-day view, T+1, the 3rd, Q3, #4")


@pytest.mark.parametrize(
    ("text", "value", "half_unit"),
    [
        ("-3.2 %", -3.2, 0.05),
        ("−3.2%", -3.2, 0.05),
        ("1,234.5", 1234.5, 0.05),
        ("39.2k", 39200.0, 50.0),
        ("1.01 million", 1.01e6, 5000.0),
        ("3.9亿", 3.9e8, 5e6),
        ("5 bps", 0.05, 0.005),
        ("２８．４", 28.4, 0.05),
        ("百分之3.5", 3.5, 0.05),
        ("1.2e7", 1.2e7, 5e5),
    ],
)
def test_a_figure_knows_its_value_and_its_precision(
    text: str, value: float, half_unit: float
) -> None:
    (figure,) = text_figures(normalise_text(text))
    assert figure.value == pytest.approx(value)
    assert figure.half_unit == pytest.approx(half_unit)
