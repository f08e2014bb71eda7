"""Position and signals of stocks as the chart has them, by hand."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from ktdeval.harness import SIGNAL_FORM, TranscriptEntry
from ktdeval_view.market_facts import Names
from ktdeval_view.paths import stock_paths


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
