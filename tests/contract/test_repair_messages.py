"""Each message that refuses a submission can be followed: a model that does literally what it says,
and nothing else, is accepted.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from ktdeval.harness import ModelRequest, ModelTraits, Reply, ToolCall
from ktdeval.testing import on_each_row
from ktdeval.values import dumps_canonical
from support.tasks.planned_tasks import planned

REASON = "reason enough"
Labels = list[str]
Bad = Callable[[Labels], Any]


def order(label: str, **changes: Any) -> dict[str, Any]:
    whole = {"stock_id": label, "side": "BUY", "confidence": 0.7, "reason": REASON}
    whole |= {"target_weight": 0.1} | changes
    return {name: value for name, value in whole.items() if value is not None}


def orders(*listed: dict[str, Any]) -> dict[str, Any]:
    return {"orders": [*listed], "overall_reason": REASON}


def decisions(labels: Labels, **changes: Any) -> dict[str, Any]:
    listed = []
    for label in labels:
        decision = {"stock_id": label, "decision": "HOLD", "confidence": 0.7, "reason": REASON}
        listed.append(decision | changes)
    return {"decisions": listed, "overall_reason": REASON}


class LiteralModel:
    """Model that sends one bad submission, and then does what each refusal says, word by word."""

    traits = ModelTraits(is_free=True)

    def __init__(self, bad: Bad) -> None:
        self._bad = bad
        self._said: Any = None
        self.refusals: list[str] = []

    def reply(self, request: ModelRequest) -> Reply:
        """Send the bad submission first, then the last one as it was told to be."""
        answers = [each for each in request.messages if each.role == "tool"]
        shown = answers[-1] if answers else request.messages[-1]
        if self._said is None:
            state = request.state
            labels = [] if state is None else [*state.candidates, *state.universe]
            self._said = self._bad(labels)
        else:
            self.refusals.append(shown.content)
            self._said = followed(shown.content, self._said)

        if isinstance(self._said, str):
            return Reply(self._said)
        if isinstance(self._said, tuple):
            return Reply(tool_calls=self._said)
        return Reply(tool_calls=(call("submit_action", dumps_canonical(self._said)),))


def call(tool: str, arguments: str, number: int = 1) -> ToolCall:
    return ToolCall(f"call_{number}", tool, arguments)


def followed(message: str, said: Any) -> Any:
    """Return a submission changed as a message says; AssertionError if it says nothing to do."""
    if not isinstance(said, Mapping):
        assert "Call submit_action exactly once" in message or "one JSON object" in message
        return orders()

    value = copy.deepcopy(dict(said))
    problems = json.loads(message)["error"]["problems"]
    for problem in reversed(problems):  # so that indices hold while orders are left out
        place, rule = problem["at"], problem["rule"]
        if "submit an empty list of orders" in rule:
            return {**value, "orders": []}
        follow(value, place, rule)

    return value


def follow(value: dict[str, Any], place: str, rule: str) -> None:
    """Change what stands at a place as a rule says."""
    *parents, last = [int(part) if part.isdigit() else part for part in re.findall(r"\w+", place)]
    if place == "(whole)":
        parents, last = [], ""
    holder: Any = value
    for part in parents:
        holder = holder[part]
    target = holder if last == "" else holder[last]

    if "leave the order out" in rule:
        del holder[last]
    elif "order less" in rule:
        target["target_weight"] /= 4
    elif found := re.search(r"must have no fields but (.*)", rule):
        for name in target.keys() - set(found[1].split(", ")):
            del target[name]
    elif "must have exactly one of target_weight and shares" in rule:
        target.pop("shares", None)
        target.setdefault("target_weight", 0.1)
    elif "must have exactly one decision for each asset shown" in rule:
        decide_as_told(target, rule)
    elif found := re.search(r"must have (.*)", rule):
        target.update(dict.fromkeys(found[1].split(", "), REASON))
    elif found := re.search(r"must be one of (\w+)", rule):
        holder[last] = found[1]
    elif found := re.search(r"must be a number from (\S+) to", rule):
        holder[last] = float(found[1])
    elif found := re.search(r"must be text of at least (\d+)", rule):
        holder[last] = "x" * int(found[1])
    else:
        pytest.fail(f"nothing to do is said: {rule}")


def decide_as_told(listed: list[dict[str, Any]], rule: str) -> None:
    """Add the decisions that are said to be lacking, and leave out those said to be too many."""
    if "for no asset shown; leave out what is not shown" in rule:
        listed[:] = [one for one in listed if one["stock_id"] != "asset_0000"]
    for found in re.finditer(r"has more than one for (\w+)", rule):
        twice = [one for one in listed if one["stock_id"] == found[1]]
        listed.remove(twice[-1])
    for found in re.finditer(r"lacks (\w+)", rule):
        listed += decisions([found[1]])["decisions"]


def play(task: str, bad: Bad) -> LiteralModel:
    """Play the first step, and check that the refused submission was mended at once."""
    model = LiteralModel(bad)
    plan = planned(task)
    episode = plan.factory.open(plan.specs[0], model)
    episode.run_step(0)
    assert len(model.refusals) == 1, model.refusals
    return model


ORDERS: Mapping[str, Bad] = {
    "no JSON": lambda labels: (call("submit_action", "{orders"),),
    "prose": lambda labels: "I would rather wait.",
    "nothing": lambda labels: " ",
    "another tool": lambda labels: (call("look", "{}"),),
    "two that differ": lambda labels: (
        call("submit_action", dumps_canonical(orders())),
        call("submit_action", dumps_canonical(orders(order(labels[0]))), 2),
    ),
    "a side of its own": lambda labels: orders(order(labels[0], side="ADD")),
    "too sure": lambda labels: orders(order(labels[0], confidence=1.2)),
    "a short reason": lambda labels: orders(order(labels[0], reason="up")),
    "no reason": lambda labels: orders(order(labels[0], reason=None)),
    "another field": lambda labels: orders(order(labels[0], urgency="high")),
    "no summary": lambda labels: {"orders": []},
    "a label of none": lambda labels: orders(order("<label>"), order(labels[0])),
    "a sell of nothing": lambda labels: orders(order(labels[0], side="SELL", target_weight=0.0)),
    "too much": lambda labels: orders(order(labels[0], target_weight=0.4)),
}
SIZES: Mapping[str, Bad] = {
    "two sizes": lambda labels: orders(order(labels[0], shares=100)),
    "no size": lambda labels: orders(order(labels[0], target_weight=None)),
}
TASKS_OF_ORDERS = ("blinded_fixed_candidate", "blinded_memory_only", "market_blinded")


@pytest.mark.slow
@pytest.mark.parametrize("fault", ORDERS)
@pytest.mark.parametrize("task", TASKS_OF_ORDERS)
def test_a_refused_order_is_mended_by_what_the_message_says(task: str, fault: str) -> None:
    play(task, ORDERS[fault])


@pytest.mark.slow
@pytest.mark.parametrize("fault", SIZES)
@pytest.mark.parametrize("task", ["blinded_fixed_candidate", "market_blinded"])
def test_a_refused_size_is_mended_by_what_the_message_says(task: str, fault: str) -> None:
    play(task, SIZES[fault])


@pytest.mark.slow
@on_each_row(
    "task, most, weight, said",
    ("blinded_fixed_candidate", 21, 0.01, "position_limit: more names would be held"),
    ("market_blinded", 41, 0.01, "position_limit: more names would be held"),
    ("blinded_fixed_candidate", 12, 0.1, "cash: the orders before it leave no cash"),
    ("blinded_memory_only", 12, 0.1, "cash: the orders before it leave no cash"),
)
def test_orders_too_many_are_left_out_as_told(
    task: str, most: int, weight: float, said: str
) -> None:
    bad = lambda labels: orders(*(order(each, target_weight=weight) for each in labels[:most]))  # noqa: E731
    (refusal,) = play(task, bad).refusals
    assert said in refusal


@pytest.mark.slow
@pytest.mark.parametrize("task", ["ama_btc", "investorbench_portfolio"])
@pytest.mark.parametrize(
    "bad",
    [
        lambda labels: decisions(labels[1:]),
        lambda labels: decisions([*labels, labels[0]]),
        lambda labels: decisions([*labels, "asset_0000"]),
        lambda labels: decisions(labels, decision="WAIT"),
        lambda labels: decisions(labels, reason="up"),
    ],
)
def test_refused_decisions_are_mended_by_what_the_message_says(task: str, bad: Bad) -> None:
    play(task, bad)


@pytest.mark.slow
@pytest.mark.parametrize("task", ["blinded_open_research", "bright_open_research"])
def test_where_no_label_was_shown_an_empty_list_is_asked_for_and_accepted(task: str) -> None:
    """Research ended before any label was shown: every order must fail."""
    (refusal,) = play(task, lambda labels: orders(order("<label>"), order("asset_0001"))).refusals
    assert "no label was shown in this step; submit an empty list of orders" in refusal
