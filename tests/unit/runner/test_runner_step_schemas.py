"""A submission's schema says what the rules say of the step: who does what it asks, and knows nothing
else, submits what is valid.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ktdeval.harness.agent import HarnessConfig
from ktdeval.harness.submissions.action import action_schema
from ktdeval.harness.submissions.stance_form import stance_schema
from ktdeval.harness.tools.tool_protocols import ProtocolModel
from ktdeval.testing import not_empty
from ktdeval.trading.ledger import StepRecord
from support.tasks.planned_tasks import planned
from support.tasks.schema_follower import Schema, SchemaFollower

#: one task of each family that asks for a decision, with what its plain schema is
ORDERS = action_schema(HarnessConfig())
STANCES = stance_schema(10)
DECISION_TASKS = {
    "investorbench_jnj": STANCES,
    "investorbench_portfolio": STANCES,
    "ama_tsla": STANCES,
    "deepfund_berkshire": STANCES,
    "views_blinded": STANCES,
    "blinded_fixed_candidate": ORDERS,
    "market_blinded": ORDERS,
    "market_coins_bright": ORDERS,
}


def first_step(
    task: str, model: SchemaFollower, protocol: str = "native", agent: str = "react"
) -> StepRecord:
    """The first step of a task, decided by a model."""
    plan = planned(task, agent)
    spec = replace(plan.specs[0], call={**plan.specs[0].call, "tool_protocol": protocol})
    entry: Any = plan.factory.open(spec, ProtocolModel(model)).run_step(0)

    return entry.step


PROTOCOLS = ("native", "json_schema", "text")


#: A tool of orders has the same schema at every step; a reply is held to that of the step.
OF_ORDERS = {
    "deepfund_berkshire",
    "blinded_fixed_candidate",
    "market_blinded",
    "market_coins_bright",
}
FOLLOWED = [
    (task, protocol)
    for task in DECISION_TASKS
    for protocol in PROTOCOLS
    if protocol == "json_schema" or task not in OF_ORDERS
]


@pytest.mark.parametrize(("task", "protocol"), FOLLOWED)
def test_who_follows_the_schema_of_a_step_submits_what_is_valid(task: str, protocol: str) -> None:
    step = first_step(task, SchemaFollower(min_items=1), protocol)
    assert (step.provenance, step.failures) == ("model", {})


@pytest.mark.parametrize(("task", "plain"), DECISION_TASKS.items())
def test_who_follows_the_plain_schema_does_not(task: str, plain: Schema) -> None:
    step = first_step(task, SchemaFollower(min_items=1, plain=plain))
    assert step.provenance == "fallback"


# --- what it tells, and where it stands


@pytest.mark.parametrize("task", [*DECISION_TASKS, "bright_memory_only"])
def test_schema_names_only_labels_of_the_prompt_in_the_same_order(task: str) -> None:
    model = SchemaFollower()
    first_step(task, model)
    request = model.requests[0]
    shown = _labels(request.tools[-1].parameters)
    held = shown if request.submit_schema is None else _labels(request.submit_schema)
    places = [request.messages[-1].content.find(label) for label in held]

    assert (shown == []) == (task in OF_ORDERS | {"bright_memory_only"})
    assert bool(places) == (task != "bright_memory_only")  # more labels than a schema lists
    assert -1 not in places
    assert places == sorted(places)


def _labels(schema: Schema) -> list[str]:
    """Labels in a schema of submissions; empty where it names none."""
    properties = schema["properties"]
    items = (properties.get("decisions") or properties["orders"])["items"]
    fields = items.get("anyOf", [items])[0]["properties"]

    return list(fields["stock_id"].get("enum", ()))


def test_an_episode_with_research_offers_the_same_tools_at_every_step() -> None:
    plan = planned("blinded_open_research")
    model = SchemaFollower()
    entry: Any = plan.factory.open(plan.specs[0], model).run_step(0)
    exchanges: Any = entry.transcript.exchanges

    assert not_empty(exchanges)
    assert all("schemas" not in exchange for exchange in exchanges)


@pytest.mark.slow
def test_an_agent_that_asks_about_one_asset_names_that_asset() -> None:
    model = SchemaFollower()
    first_step("market_blinded", model, agent="by_asset")
    asked = [_labels(request.tools[-1].parameters) for request in model.requests]
    shown = [[*request.state.assets] for request in model.requests if request.state]

    assert asked == shown
    assert {len(labels) for labels in asked} == {1}
