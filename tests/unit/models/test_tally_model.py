"""`builtin/tally`: the majority of the views in its prompt, written by desks or passed on by a role, and nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ktdeval.harness import Message, ModelRequest, ToolSpec
from ktdeval.registry import load_plugins

MODEL = load_plugins().make_model("builtin/tally", {})
SUBMIT = ToolSpec("submit_action", "Submit.", {})
TOLD = "## Analyst\n\nView of desk 2 on a: rise\nView of desk 3 on a: rise\n\n## Bull\n\nView of desk 3 on a: rise\n"


def request(told: str = "", *, submits: bool = True, hold: bool = True, weight: float = 0.0) -> ModelRequest:
    limits: dict[str, Any] = {"max_weight": 1.0, "short_sales": True, "min_reason_chars": 1}
    text = "This desk expects {} to {} by the next close. It is right on seven days of ten."
    rows = [["desk 1", ["a"], text.format("a", "fall")], ["desk 1", ["b"], text.format("b", "rise")], ["wire", ["a"], "It rose."]]
    state = {
        "account": {},
        "positions": {"columns": ["stock_id", "weight"], "rows": [["c", weight]] if weight else []},
        "constraints": limits | ({"hold": "keep"} if hold else {}),
        "candidates": {"columns": ["stock_id", "close"], "rows": [["a", 1.0], ["b", 1.0], ["c", 1.0]]},
        "news": {"columns": ["source", "stock_ids", "text"], "rows": rows},
    }
    messages = (Message("system", TOLD), Message("user", f"{told}\n```json\n{json.dumps(state)}\n```"))
    return ModelRequest(messages, *(((SUBMIT,), "submit_action") if submits else ()))


def submitted(**changes: Any) -> Any:
    (call,) = MODEL.reply(request(**changes)).tool_calls
    return json.loads(call.arguments)


@pytest.mark.parametrize(("told", "side"), [("", "SELL"), (TOLD, "BUY"), ("View of desk 9 on a: rise", "HOLD")])
def test_the_majority_of_views_decides_each_counted_once(told: str, side: str) -> None:
    assert [one["decision"] for one in submitted(told=told)["decisions"]] == [side, "BUY", "HOLD"]


def test_orders_hold_the_side_in_equal_parts_and_end_what_nobody_stands_for() -> None:
    orders = submitted(hold=False, weight=0.2)["orders"]
    assert [(one["stock_id"], one["side"], round(one["target_weight"], 3)) for one in orders] == [
        ("a", "SELL", -0.333), ("b", "BUY", 0.333), ("c", "SELL", 0.0),
    ]  # fmt: skip


def test_a_role_passes_on_what_it_knows() -> None:
    assert MODEL.reply(request(TOLD, submits=False)).content.splitlines()[1:] == [
        "View of desk 1 on a: fall", "View of desk 1 on b: rise", "View of desk 2 on a: rise", "View of desk 3 on a: rise",
    ]  # fmt: skip
    assert MODEL.reply(ModelRequest((Message("user", "How did it go?"),))).content == "No view is known to me."
