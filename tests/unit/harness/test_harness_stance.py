"""BUY, SELL or HOLD of each asset: what is a submission, which orders it comes to; what counts as a
signal of an analyst.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ktdeval.harness import (
    SIGNAL_FORM,
    HarnessConfig,
    StanceForm,
    StanceRule,
    TranscriptEntry,
    read_signals,
    step_signals,
)
from ktdeval.market import Instrument
from ktdeval.masking import Lens, MaskConfig
from ktdeval.testing import not_empty, on_each_row, snapshot_of_days
from ktdeval.trading import AccountConfig, MarketTape, Position
from ktdeval.trading.daily_settlement import open_account
from ktdeval.trading.executor import settle
from support.searching import examples

COIN = Instrument("crypto", "USD", "frictionless")
MARKET = snapshot_of_days(("AAA", "BBB"), [[10.0, 20.0]] * 4, instruments=(COIN, COIN))


def form(
    hold: Any = "flat",
    shorts: bool = True,
    shown: tuple[int, ...] = (0,),
    held: int = 0,
    closes: bool = False,
) -> tuple[StanceForm, Lens]:
    lens = Lens(MaskConfig("blinded"), 1, MARKET, 1)
    made = StanceForm(HarnessConfig(), lens, StanceRule(1.0, hold, shorts, closes))
    for asset in shown:
        lens.asset_handle(asset)

    made.today(shown, {0: Position(held)} if held else {})

    return made, lens


def submission_text(*decisions: tuple[str, str], **more: Any) -> str:
    items = [
        {"stock_id": stock, "decision": what, "confidence": 0.6, "reason": "because it fits"}
        for stock, what in decisions
    ]
    return json.dumps({"decisions": items, "overall_reason": "so", **more})


@on_each_row(
    "decision, hold, shorts, closes, held, order",
    ("BUY", "flat", True, False, 0, ["BUY", 1.0]),
    ("BUY", "flat", True, False, 5, None),
    ("BUY", "keep", True, False, -5, ["BUY", 1.0]),
    ("SELL", "flat", True, False, 0, ["SELL", -1.0]),
    ("SELL", "keep", True, False, 5, ["SELL", -1.0]),
    ("SELL", "keep", True, False, -5, None),
    ("SELL", "flat", False, False, 5, ["SELL", 0.0]),
    ("SELL", "flat", False, False, 0, None),
    ("HOLD", "flat", True, False, 5, ["SELL", 0.0]),
    ("HOLD", "flat", True, False, -5, ["BUY", 0.0]),
    ("HOLD", "flat", True, False, 0, None),
    ("HOLD", "keep", True, False, 5, None),
    ("HOLD", "keep", True, False, -5, None),
    # Where a SELL closes a holding, only a second one goes short.
    ("SELL", "keep", True, True, 5, ["SELL", 0.0]),
    ("SELL", "keep", True, True, 0, ["SELL", -1.0]),
    ("BUY", "keep", True, True, -5, ["BUY", 1.0]),
)
def test_a_decision_trades_only_where_it_changes_the_side(
    decision: str, hold: str, shorts: bool, closes: bool, held: int, order: tuple[str, float] | None
) -> None:
    made, lens = form(hold, shorts, held=held, closes=closes)
    done = made.read(submission_text((lens.asset_handle(0), decision))).submission

    assert done.action is not None
    assert [(one.asset, one.side, one.target_weight, one.confidence) for one in done.action] == (
        [(0, order[0], pytest.approx(order[1], abs=2e-6), 0.6)] if order else []
    )
    assert done.overall_reason == "so"


def test_each_asset_shown_has_exactly_one_decision_in_the_form_asked_for() -> None:
    made, lens = form(shown=(0, 1))
    first = lens.asset_handle(0)
    second = lens.asset_handle(1)

    assert (
        made.read(submission_text((second, "SELL"), (first, "BUY"))).submission.action is not None
    )

    for decisions in (
        [(first, "BUY")],
        [(first, "BUY"), (first, "SELL")],
        [(first, "BUY"), ("asset_9999", "BUY")],
        [],
    ):
        done = made.read(submission_text(*decisions))
        assert (done.submission.failure, done.submission.action) == ("schema", None)
        assert "exactly one decision for each asset shown" in done.submission.feedback

    assert made.read(submission_text((first, "BUY"), ("AAA", "BUY"))).unmask_attempts == 1

    # as of orders
    for unread in (
        submission_text((first, "LONG"), ("AAA", "BUY")),
        submission_text((first, "BUY"), ("AAA", "BUY"), orders=[]),
    ):
        assert (made.read(unread).submission.failure, made.read(unread).unmask_attempts) == (
            "schema",
            1,
        )

    for text in (
        submission_text((first, "LONG"), (second, "BUY")),
        submission_text((first, "BUY"), (second, "HOLD"), orders=[]),
        "{}",
        "[]",
    ):
        assert made.read(text).submission.failure == "schema"

    assert made.read("BUY").submission.failure == "bad_json"
    assert made.tool.name == "submit_action"
    assert "decisions" in str(made.tool.parameters)


@pytest.mark.slow
@examples(25)
@given(
    moves=st.lists(st.floats(0.8, 1.25), min_size=2, max_size=25),
    decisions=st.lists(st.sampled_from(["BUY", "SELL", "HOLD"]), min_size=25, max_size=25),
    hold=st.sampled_from(["keep", "flat"]),
    start=st.floats(0.01, 90_000),
)
def test_decisions_without_costs_fill_wholly_and_nav_follows_the_side(
    moves: list[float], decisions: list[str], hold: str, start: float
) -> None:
    prices = [round(start, 6)]
    for move in moves:
        prices.append(round(prices[-1] * move, 6) or 1e-6)

    market = snapshot_of_days(("AAA",), [[price] for price in prices], instruments=(COIN,))
    rules = AccountConfig(initial_cash=1_000_000, max_positions=1, max_weight=1.0).rules("test")
    tape = MarketTape.from_snapshot(market, rules)
    lens = Lens(MaskConfig("bright"), 1, market, 0)
    made = StanceForm(HarnessConfig(), lens, StanceRule(1.0, hold, True))  # type: ignore[arg-type]
    # the same by real numbers: units held, money beside them
    account = open_account(rules)
    units = 0.0
    cash = 1_000_000.0
    lens.asset_handle(0)

    for row, decision in enumerate(not_empty(decisions[: len(moves)], len(moves))):
        made.today((0,), account.positions)
        done = made.read(submission_text(("AAA", decision))).submission
        assert done.action is not None
        day = settle(account, tape.day(row + 1), done.action, row)
        assert [outcome.status for outcome in day.outcomes] == ["filled"] * len(done.action)
        side = {
            "BUY": 1,
            "SELL": -1,
            "HOLD": 0 if hold == "flat" else int((units > 0) - (units < 0)),
        }[decision]
        if side * units <= 0 and (side or units):
            nav = cash + units * prices[row]
            units = side * nav / prices[row] * (1 - 1e-6 if units * side < 0 else 1)
            cash = nav - units * prices[row]

        account = day.after
        assert day.nav_minor / 100 == pytest.approx(
            cash + units * prices[row + 1], rel=1e-6, abs=0.05
        )
        if day.nav_minor < 100_000:  # a short that lost nearly all: margin calls begin
            break


# -- signals of analysts


STATE = {
    "positions": {"columns": ["stock_id", "shares"], "rows": [["asset_2", 2.5]]},
    "candidates": {"columns": ["stock_id"], "rows": [["asset_1"], ["asset_2"]]},
}
DAY = f"Day.\n\n```json\n{json.dumps(STATE)}\n```\n"


@on_each_row(
    "text, expected",
    ('Up. {"asset_1": "Bullish", "asset_2": "Bearish"}', ["Bullish", "Bearish"]),
    (
        '{"asset_1": "Bearish"} no: {"asset_1": " bullish", "OTHERS": "NEUTRAL"}.',
        ["Bullish", "Neutral"],
    ),
    # named, so it is not one of the others
    ('{"asset_1": "Rising", "OTHERS": "Bearish"}', [None, "Bearish"]),
    ('{"signals": {"asset_2": "Neutral"}}', [None, "Neutral"]),
    ('{"Asset_1": "Bullish", "ａSSET_2 ": "Bearish", "others": "Neutral"}', ["Bullish", "Bearish"]),
    ('{"ASSET_1": "Bullish", "Others": "Neutral"}', ["Bullish", "Neutral"]),
    ('{"asset_3": "Bullish", "asset_1": 1, "asset_2": null}', [None, None]),
    ("asset_1 is Bullish.", [None, None]),
    ('{"asset_1": "Bullish", }', [None, None]),
    ("", [None, None]),
)
def test_a_signal_is_read_from_the_last_object_of_an_answer(
    text: str, expected: list[str | None]
) -> None:
    signals = read_signals(text, ["asset_1", "asset_2"])
    assert [signals.get(asset) for asset in ("asset_1", "asset_2")] == expected


def exchange(role: str | None, system: str, reply: str | None, kept: int = 0) -> dict[str, Any]:
    sent = [{"role": "system", "content": system}, {"role": "user", "content": DAY}][kept:]
    answer = (
        {"error": "timeout"}
        if reply is None
        else {"reply": {"content": reply, "finish_reason": "stop"}}
    )
    return {"kept": kept, "sent": sent, **answer, **({} if role is None else {"role": role})}


def test_the_last_answer_of_each_role_that_was_asked_counts() -> None:
    asked = f"Judge. {SIGNAL_FORM}"
    signals = step_signals(
        TranscriptEntry(
            step=0,
            exchanges=(
                exchange("planner", "Choose.", '{"OTHERS": "Bullish"}'),
                exchange("news", asked, '{"OTHERS": "Bullish"}'),
                # its instructions were sent before
                exchange("news", asked, '{"OTHERS": "Bearish"}', kept=1),
                exchange("macro", asked, ""),
                exchange(None, asked, '{"OTHERS": "Bullish"}'),
                exchange("policy", asked, None),
            ),
            submission=None,
        )
    )

    assert signals.held == {"asset_1": 0.0, "asset_2": 2.5}
    assert signals.answers == {
        "news": {"asset_1": "Bearish", "asset_2": "Bearish"},
        "macro": {},
        "policy": {},
    }

    table = '```json\n{"candidates": {"columns": ["stock_id"], "rows": [[1, 2]]}}\n```'
    damaged: Any = (
        {"sent": [{"role": "user", "content": table}]},
        {"role": [], "sent": 5, "kept": "x"},
        {"sent": [3, {"role": "user", "content": 7}]},
        {},
    )

    assert step_signals(TranscriptEntry(step=0, exchanges=damaged, submission=None)).answers == {}

    nothing = step_signals(
        TranscriptEntry(
            step=1, exchanges=({**exchange("news", asked, "x"), "sent": []},), submission=None
        )
    )

    assert (nothing.assets, nothing.answers) == ((), {})


def test_feedback_names_the_assets_that_lack_a_decision_or_have_several() -> None:
    made, lens = form(shown=(0, 1))
    first = lens.asset_handle(0)
    second = lens.asset_handle(1)
    rule = "must have exactly one decision for each asset shown"

    def said(*labels: str) -> str:
        read = made.read(submission_text(*((label, "BUY") for label in labels))).submission
        problem = json.loads(read.feedback)["error"]["problems"][0]
        assert problem["at"] == "decisions"
        return str(problem["rule"])

    assert said(first) == f"{rule}: lacks {second}"
    assert said() == f"{rule}: lacks {first}, {second}"
    assert said(first, first) == f"{rule}: lacks {second}, has more than one for {first}"
    assert said(first, second, "gold") == (
        f"{rule}: has 1 for no asset shown; leave out what is not shown"
    )
