"""What pages show of a step and of a stock, by hand: money, prices and quantities in units, positions and signals by code."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from ktdeval.harness import SIGNAL_FORM, TranscriptEntry
from ktdeval.trading import Ledger
from ktdeval.trading.ledger import StepRecord
from ktdeval.typed import from_plain, to_plain
from ktdeval_view.market_facts import Names, stock_paths
from ktdeval_view.records import step_in_units
from ledger_cases import short_ledger


def test_a_step_of_version_2_is_shown_in_units_of_currency_and_shares() -> None:
    ledger = short_ledger()
    step = step_in_units(ledger, ledger.steps[1])
    assert (step["nav"], step["cash"]) == (960.0, 1230.0)
    assert (
        step["orders"][0] | {"filled_shares": 0.5, "shares": 0.5, "price": 300.0, "notional": 150.0, "fee": 1.0}
        == step["orders"][0]
    )
    assert step["positions"] == [{"code": "TSLA", "shares": -0.9, "locked": 0.0, "price": 300.0, "value": -270.0}]
    assert [(charge["kind"], charge["shares"], charge["cash"]) for charge in step["charges"]] == [
        ("borrow", -1.0, -0.12),
        ("margin_call", 0.1, -31.0),
    ]
    assert not any(name.endswith(("_minor", "_ticks")) for name in step)


def test_a_step_in_a_shares_keeps_whole_shares_and_has_no_charges() -> None:
    record = to_plain(short_ledger().steps[0])
    del record["charges"]
    ledger = Ledger({}, 100_000, [from_plain(record, StepRecord, "record")])
    step = step_in_units(ledger, ledger.steps[0])
    assert (step["orders"][0]["filled_shares"], step["orders"][0]["price"], "charges" in step) == (15_000, 300.0, False)
    assert isinstance(step["orders"][0]["filled_shares"], int)


def talk(step: int, **answers: str | None) -> TranscriptEntry:
    table = {"columns": ["stock_id"], "rows": [["asset_1"], ["asset_2"]]}
    sent = [
        {"role": "system", "content": SIGNAL_FORM},
        {"role": "user", "content": f"```json\n{json.dumps({'candidates': table})}\n```"},
    ]
    replies = {role: {"error": "timeout"} if text is None else {"reply": {"content": text}} for role, text in answers.items()}
    return TranscriptEntry(
        step=step,
        exchanges=tuple({"role": role, "kept": 0, "sent": sent, **reply} for role, reply in replies.items()),
        submission=None,
    )


def test_positions_and_signals_stand_by_code_and_step() -> None:
    def step(nav: int, **values: int) -> Any:
        positions = [SimpleNamespace(code=code, value_minor=value) for code, value in values.items()]
        return SimpleNamespace(nav_minor=nav, positions=positions)

    steps = [step(100, AAA=25), step(0, AAA=25), step(200, AAA=-50, BBB=1)]
    talks = [
        talk(0, news='{"asset_1": "Bullish", "OTHERS": "Bearish"}'),
        talk(1, news=None, macro='{"asset_1": "Neutral"}'),
        talk(2),
    ]
    records: Any = SimpleNamespace(steps=steps, talks=talks)
    found = stock_paths(records, Names(assets={"asset_1": ("AAA", "A company")}))
    assert found == {
        "weights": {"AAA": [0.25, 0.0, -0.25], "BBB": [0.0, 0.0, 0.005]},
        "analysts": ["news", "macro"],
        "signals": {"AAA": ["+x.", ".0."], "asset_2": ["-x.", ".x."]},
    }
