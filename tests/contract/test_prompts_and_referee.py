"""What the prompt of each trading task says about a submission is what happens to it: which figures
are accepted, which orders bring back the whole, what is scored, and how often one may try again.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from ktdeval.harness import ModelRequest, ModelTraits, Reply, ToolCall
from ktdeval.task_api import is_scoring
from ktdeval.values import dumps_canonical
from support.tasks.copyable_examples import Fields
from support.tasks.planned_tasks import PLUGINS, TASKS, first_requests, planned

TRADING = [name for name in TASKS if not is_scoring(PLUGINS.make_task(name))]
AS_A_WHOLE = "comes back in the same way, as a whole: "
SCORED = "scored against what happens, so report what you believe"
_RANGE = re.compile(r"from (-?\d) to (\d)")

pytestmark = pytest.mark.slow


def told(task: str) -> str:
    request: ModelRequest = first_requests(task)[-1]
    return "\n".join(message.content for message in request.messages)


def fields_of(task: str) -> dict[str, Any]:
    """Fields of one order or decision, as the submit tool has them."""
    (tool,) = (tool for tool in first_requests(task)[-1].tools if tool.name == "submit_action")
    properties: Any = tool.parameters["properties"]
    (items,) = (part["items"] for part in properties.values() if "items" in part)
    forms = items.get("anyOf", [items])
    return {name: part for form in forms for name, part in form["properties"].items()}


@pytest.mark.parametrize("task", TRADING)
def test_orders_that_come_back_as_a_whole_are_announced(task: str) -> None:
    comes_back = PLUGINS.make_task(task).trading.constraint_feedback
    assert (AS_A_WHOLE in told(task)) == comes_back


@pytest.mark.parametrize("task", TRADING)
def test_a_confidence_that_is_scored_is_announced(task: str) -> None:
    metrics = {"ece", "brier"} & set(PLUGINS.make_task(task).metrics)
    assert (SCORED in told(task)) == bool(metrics)


@pytest.mark.parametrize("task", TRADING)
def test_stated_bounds_are_those_of_the_referee(task: str) -> None:
    harness = PLUGINS.make_task(task).harness
    text = told(task)
    assert f"`reason`: why, in at least {harness.min_reason_chars} characters" in text
    assert f"with what is wrong, at most {harness.schema_retries} times" in text

    fields = fields_of(task)
    for name in {"confidence", "target_weight"} & fields.keys():
        (line,) = (line for line in text.splitlines() if re.match(rf"- .*`{name}`", line))
        low, high = _RANGE.search(line.partition(f"`{name}` is")[2] or line).groups()  # type: ignore[union-attr]
        bounds = Fields.of(fields[name]).bounds
        assert min(bound[0] for bound in bounds) >= float(low)
        assert max(bound[1] for bound in bounds) <= float(high)


class OneGoodOneKnownToFail:
    """Model that buys an asset and sells another one that it does not hold; at its second try it
    only buys.
    """

    traits = ModelTraits(is_free=True)

    def __init__(self) -> None:
        self.answers: list[str] = []

    def reply(self, request: ModelRequest) -> Reply:
        assert request.state is not None
        bought, sold, *_ = request.state.candidates
        orders = [order(bought, "BUY")]
        if request.messages[-1].role == "tool":
            self.answers.append(request.messages[-1].content)
        else:
            orders.append(order(sold, "SELL"))

        action = dumps_canonical({"orders": orders, "overall_reason": "as told"})
        return Reply(tool_calls=(ToolCall(f"c{len(self.answers)}", "submit_action", action),))


def order(label: str, side: str) -> dict[str, Any]:
    sized = {"target_weight": 0.1, "confidence": 0.7, "reason": "reason enough"}
    return {"stock_id": label, "side": side, **sized}


@pytest.mark.parametrize(
    ("task", "answers"), [("blinded_fixed_candidate", 1), ("deepfund_berkshire", 0)]
)
def test_an_order_known_to_fail_brings_back_the_other_where_announced(
    task: str, answers: int
) -> None:
    model = OneGoodOneKnownToFail()
    plan = planned(task)
    entry = plan.factory.open(plan.specs[0], model).run_step(0)
    assert entry is not None
    assert len(model.answers) == answers
    assert all("orders[1]" in answer and "nothing to sell" in answer for answer in model.answers)
