"""Calls, tokens and cost by role, of transcripts worked by hand."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ktdeval.cards import PriceEntry
from ktdeval.errors import UsageError
from ktdeval.harness import TranscriptEntry, Usage
from ktdeval_agents.command import usage_by_role

PRICE = PriceEntry(input=2.0, output=10.0, cache_read=None, cache_write=None, as_of="", source="--price")


def folder(*exchanges: dict[str, Any], finished: bool = True) -> Any:
    talks = [TranscriptEntry(step=0, exchanges=exchanges, submission=None)]
    specs = SimpleNamespace(specs=["one", "two"])
    return SimpleNamespace(path=Path("run"), manifest=specs, is_complete=lambda _: finished, load_transcript=lambda _: talks)


def test_calls_are_counted_by_role_over_all_episodes() -> None:
    usage = Usage(input_tokens=100, output_tokens=7).to_json()
    found = usage_by_role(
        folder(
            {"role": "bull", "reply": {"content": "up", "finish_reason": "stop", "usage": usage}},
            {"role": "bear", "error": "timeout"},
            {"role": "bull", "reply": {"content": " ", "finish_reason": "stop"}},
            {"reply": {"content": "", "finish_reason": "stop", "tool_calls": [{"id": "c", "name": "look", "arguments": "{}"}]}},
        )
    )
    counts = {name: (role.calls, role.failed, role.empty, role.usage.input_tokens) for name, role in found.items()}
    assert counts == {"bull": (4, 0, 2, 200), "bear": (2, 2, 0, 0), "(no role)": (2, 0, 0, 0)}
    assert found["bull"].to_json(PRICE)["usd"] == pytest.approx((200 * 2 + 14 * 10) / 1e6)
    assert found["bull"].to_json(None)["usd"] is None


def test_a_run_without_a_finished_episode_is_refused() -> None:
    with pytest.raises(UsageError, match="no episode is finished"):
        usage_by_role(folder(finished=False))
