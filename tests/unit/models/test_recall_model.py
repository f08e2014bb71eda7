"""`builtin/recall`: it counts words of news by what came after them, in what its prompt remembers, and knows nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ktdeval.harness.messages import Message, ModelRequest, Reply, ToolSpec
from ktdeval.registry import load_plugins
from ktdeval.testing.conformance import check_model

SUBMIT = ToolSpec("submit_action", "Submit.", {"type": "object"})
MODEL = load_plugins().make_model("builtin/recall", {})


def ask(news: str, *memories: str, label: str | None = None, weight: float = 0.0, shorts: bool = True, assets: int = 1) -> Reply:
    """Its answer to a prompt with memories before it; with a label, to a lesson."""
    state: dict[str, Any] = {
        "news": {"columns": ["stock_ids", "text"], "rows": [[["asset_1"], news]] if news else []},
        "candidates": {"columns": ["stock_id"], "rows": [[f"asset_{number}"] for number in range(1, assets + 1)]},
    }
    if label is None:
        held = [["asset_1", weight, True, "trading"]] if weight else []
        state["positions"] = {"columns": ["stock_id", "weight", "member", "status"], "rows": held}
        state["account"] = {"nav": 1.0}
        state["constraints"] = {"max_weight": 1.0, "short_sales": shorts, "hold": "flat", "min_reason_chars": 1}
    else:
        state["outcomes"] = {"columns": ["stock_id", "label"], "rows": [[f"asset_{number + 1}", label] for number in range(assets)]}
    lines = "\n".join(f"- M{number}: {memory}" for number, memory in enumerate(memories, start=9))
    prompt = f"What you remember:\n\n{lines}\n\n```json\n{json.dumps(state)}\n```\n\nDecide.\n"
    tools, choice = ((SUBMIT,), "submit_action") if label is None else ((), None)
    return MODEL.reply(ModelRequest((Message("system", "s"), Message("user", prompt)), tools, choice))


def decided(reply: Reply) -> tuple[str, str]:
    submitted = json.loads(reply.tool_calls[0].arguments)
    return submitted["decisions"][0]["decision"], submitted["overall_reason"]


def test_a_lesson_counts_the_words_of_its_news_for_its_label() -> None:
    assert ask("asset_1 raised 12 sales; weak sales", label="BUY").content == "votes: raised+1 sales+1 weak+1"
    before = "day_-2, warm-up; it rose: votes: sales-2 weak-1"
    assert ask("Raised sales", before, label="BUY").content == "votes: raised+1 sales-1 weak-1"
    assert ask("raised", before, label="SELL").content == "votes: sales-2 raised-1 weak-1"
    assert ask("raised", before, label="HOLD").content == ask("", before, label="BUY").content == "votes: sales-2 weak-1"
    many = " ".join(f"{chr(97 + place % 26)}{chr(97 + place // 26)}word" for place in range(60))
    assert ask(many, label="BUY").content.count("+1") == 24


def test_it_decides_by_the_newest_votes_that_it_is_shown() -> None:
    old, new = "day_-9, reflection: votes: raised-5", "day_-1, reflection: votes: raised+2 weak-3 sales+1"
    assert decided(ask("raised sales", old, new)) == ("BUY", "votes: weak-3 raised+2 sales+1")  # and remembers them again
    assert decided(ask("raised weak", old, new))[0] == "SELL"
    assert decided(ask("raised weak", old, new, shorts=False))[0] == "HOLD"
    assert decided(ask("raised weak", old, new, weight=1.0, shorts=False))[0] == "HOLD"  # flat: what was held is sold
    assert decided(ask("raised", old, new, weight=1.0))[0] == "BUY"
    for nothing in (
        ask("unheard of", old, new),
        ask("", old, new),
        ask("raised"),
        ask("raised", "votes of a board", new, assets=2),
    ):
        assert decided(nothing)[0] == "HOLD"


@pytest.mark.parametrize("label", ["BUY", None])
def test_of_several_assets_and_of_plain_prompts_it_learns_nothing(label: str | None) -> None:
    assert "votes" not in ask("raised", label="BUY", assets=2).content
    request = ModelRequest((Message("system", "s"), Message("user", "Hello.")), () if label else (SUBMIT,))
    assert "votes" not in str(MODEL.reply(request).to_json())


def test_it_is_a_model() -> None:
    check_model(MODEL)
