"""Signals of analysts: what counts as one in an answer, and where a transcript has them."""

from __future__ import annotations

import json
from typing import Any

from ktdeval.harness import SIGNAL_FORM, TranscriptEntry, read_signals, step_signals
from tables import on_each_row

STATE = {
    "positions": {"columns": ["stock_id", "shares"], "rows": [["asset_2", 2.5]]},
    "candidates": {"columns": ["stock_id"], "rows": [["asset_1"], ["asset_2"]]},
}
DAY = f"Day.\n\n```json\n{json.dumps(STATE)}\n```\n"


@on_each_row
def test_a_signal_stands_in_the_last_object_of_an_answer(text: str, expected: list[str | None]) -> None:
    found = read_signals(text, ["asset_1", "asset_2"])
    assert [found.get(asset) for asset in ("asset_1", "asset_2")] == expected


def exchange(role: str | None, system: str, reply: str | None, kept: int = 0) -> dict[str, Any]:
    sent = [{"role": "system", "content": system}, {"role": "user", "content": DAY}][kept:]
    answer = {"error": "timeout"} if reply is None else {"reply": {"content": reply, "finish_reason": "stop"}}
    return {"kept": kept, "sent": sent, **answer, **({} if role is None else {"role": role})}


def test_the_last_answer_of_each_role_that_was_asked_counts() -> None:
    asked = f"Judge. {SIGNAL_FORM}"
    found = step_signals(
        TranscriptEntry(
            step=0,
            exchanges=(
                exchange("planner", "Choose.", '{"OTHERS": "Bullish"}'),
                exchange("news", asked, '{"OTHERS": "Bullish"}'),
                exchange("news", asked, '{"OTHERS": "Bearish"}', kept=1),  # its instructions were sent before
                exchange("macro", asked, ""),
                exchange(None, asked, '{"OTHERS": "Bullish"}'),
                exchange("policy", asked, None),
            ),
            submission=None,
        )
    )
    assert found.held == {"asset_1": 0.0, "asset_2": 2.5}
    assert found.answers == {"news": {"asset_1": "Bearish", "asset_2": "Bearish"}, "macro": {}, "policy": {}}
    table = '```json\n{"candidates": {"columns": ["stock_id"], "rows": [[1, 2]]}}\n```'
    damaged: Any = (
        {"sent": [{"role": "user", "content": table}]},
        {"role": [], "sent": 5, "kept": "x"},
        {"sent": [3, {"role": "user", "content": 7}]},
        {},
    )
    assert step_signals(TranscriptEntry(step=0, exchanges=damaged, submission=None)).answers == {}
    nothing = step_signals(TranscriptEntry(step=1, exchanges=({**exchange("news", asked, "x"), "sent": []},), submission=None))
    assert (nothing.assets, nothing.answers) == ((), {})
