"""Every JSON Schema that is sent to a model: what each task, agent and mask asks for, by the
requests of its first step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from ktdeval.calls import tool_protocol_probe
from ktdeval.errors import KtdevalError
from ktdeval.harness.agent import HarnessConfig
from ktdeval.harness.chat_messages import ModelRequest
from ktdeval.harness.submissions.action import action_schema
from ktdeval.harness.submissions.submission_form import SUBMIT_TOOL
from ktdeval.harness.tools.tool_protocols import encode
from ktdeval.runner.rehearsals.rehearsal import rehearse
from ktdeval.task_api.qa import QATask
from ktdeval.values import dumps_canonical, load_yaml
from support.session_cache import built_once
from support.tasks.planned_tasks import PLUGINS, TASKS, planned

Schema = Mapping[str, Any]

#: the exercise by which a run finds out how a model takes tools
REHEARSAL = load_yaml(Path(tool_protocol_probe.__file__).with_name("rehearsal.yaml"))

AGENTS = ("react", *sorted({*PLUGINS.specs("agents")} - {"react"}))


@cache
def sent_schemas(is_whole: bool = False) -> Mapping[str, Schema]:
    """Schemas by name, each shape once, under the first task that sends it: `submit_action of
    market_blinded`.

    Every task is asked with the agent `react`, and one task of each family, with and without
    research, with every agent; `is_whole`: all with all, which takes a while, and finds no more.
    """
    name = "sent_schemas_of_all" if is_whole else "sent_schemas"
    schemas: dict[str, Schema] = built_once(name, lambda: _sent_schemas(is_whole))

    return schemas


def _sent_schemas(is_whole: bool) -> dict[str, Schema]:
    named: dict[str, Schema] = {}
    seen: set[str] = set()
    for name, schema in _all_schemas(is_whole):
        text = dumps_canonical(shape_of(schema))
        if text in seen:
            continue

        assert name not in named, f"two different schemas are called {name}"
        seen.add(text)
        named[name] = schema

    return named


def shape_of(schema: Any, name: str = "") -> Any:
    """A schema without what one step has of its own: which labels, the number of items beyond two,
    the greatest size. Two schemas of one shape mean the same to every engine.
    """
    if isinstance(schema, list):
        return [shape_of(part) for part in schema]

    if not isinstance(schema, Mapping):
        return schema

    shape = {word: shape_of(part, word) for word, part in schema.items()}
    if name == "stock_id" and "enum" in schema:
        shape["enum"] = ["label"]
    # In the second form of an order: the pattern of the labels, or any text where they have none.
    if name == "stock_id" and not schema.keys() & {"enum", "description"}:
        shape = {"type": "string", "pattern": "label"}

    if name == "orders":  # when they fill
        shape.pop("description", None)

    if name in ("orders", "decisions"):
        for word in {"minItems", "maxItems"} & schema.keys():
            shape[word] = min(schema[word], 2)

    if name in ("shares", "target_weight"):
        shape["maximum"] = "bound"

    return shape


def _all_schemas(is_whole: bool) -> Iterator[tuple[str, Schema]]:
    yield from _actions()
    yield from _questions()
    yield from (
        (f"{spec['name']} of the exercise", spec["parameters"]) for spec in REHEARSAL["tools"]
    )

    for name in sorted(PLUGINS.specs("tools")):
        yield name, PLUGINS.tools((name,))[0].spec.parameters

    asked: set[tuple[str, bool]] = set()
    for task in TASKS:
        has_research = bool(getattr(PLUGINS.make_task(task), "tools", ()))
        kind = (PLUGINS.spec("tasks", task).groups[0], has_research)
        yield from _of_task(task, ("react",) if kind in asked and not is_whole else AGENTS)
        asked.add(kind)


def _actions() -> Iterator[tuple[str, Schema]]:
    """Actions of every market, also of one that no task has yet: whole shares or fractions, with
    and without short sales and limits.
    """
    for whole, shorts, limits in product((True, False), (False, True), (False, True)):
        schema = action_schema(HarnessConfig(), whole_shares=whole, shorts=shorts, limits=limits)
        del schema["$schema"]
        units = "whole shares" if whole else "fractions"
        more = f"{' with short sales' if shorts else ''}{' with limits' if limits else ''}"
        yield f"{SUBMIT_TOOL} in {units}{more}", schema


def _questions() -> Iterator[tuple[str, Schema]]:
    """Forms of a task of questions, of which no built-in one is left: with and without choices."""
    samples = [
        {"question": "Up?", "target": "yes"},
        {"question": "Up?", "target": "yes", "choices": ["yes", "no"]},
    ]
    task = QATask(name="questions", samples=samples, score=lambda *_: True)
    questions = task.samples(None, None, None)

    for number, kind in enumerate(("a question", "a choice")):
        form = questions.sample(number).form
        yield f"{form.name} of {kind}", form.parameters


def _of_task(task: str, agents: Sequence[str]) -> Iterator[tuple[str, Schema]]:
    """Schemas of a task's tools, and the envelopes of a model that takes no tools, with each of the
    agents that takes the task.
    """
    for agent, request in _requests(task, agents):
        by = task if agent == "react" else f"{task} by {agent}"
        for tool in request.tools:
            is_form = tool.name == request.tool_choice
            yield (f"{tool.name} of {by}" if is_form else tool.name), tool.parameters

        if request.response_schema is not None:
            yield f"reply of {by}", request.response_schema

        asked = replace(request, params=replace(request.params, tool_protocol="json_schema"))
        if (envelope := encode(asked).response_schema) is not None:
            yield f"envelope of {request.tool_choice or 'tools'} of {by}", envelope


def _requests(task: str, agents: Sequence[str]) -> Iterator[tuple[str, ModelRequest]]:
    """Requests of the first step of a task, with each of the agents that takes it."""
    plan = planned(task)
    took = []

    for agent in agents:
        try:
            spec = replace(plan.specs[0], agent=agent, agent_args={})
            (first,) = rehearse([spec], lambda: plan.factory)
            requests = first.play_shown(with_lessons=False).requests
        except KtdevalError:  # not every agent takes every task
            continue

        took.append(agent)
        yield from ((agent, request) for request in requests)

    assert "react" in took, f"the agent react does not take {task}"
