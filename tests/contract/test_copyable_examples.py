"""No prompt has an example that a model could copy: what stands in an example is open, and names all
sides. A figure of the prompt would otherwise be counted as the model's own belief.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ktdeval.harness import Message, ModelRequest, ToolSpec
from ktdeval.testing import not_empty
from support.tables import beside
from support.tasks.copyable_examples import copyable_of
from support.tasks.planned_tasks import TASKS, first_requests
from support.tasks.prompts_page import asked_of

PAGE = beside(str(Path(__file__).with_name("test_prompts_page.yaml")))
SIDE = {"type": "string", "enum": ["BUY", "SELL"]}
SHARE = {"type": "number", "minimum": 0, "maximum": 1}
ORDER = {
    "type": "object",
    "properties": {"side": SIDE, "confidence": SHARE, "reason": {"type": "string"}},
}


def found_in(text: str, schema: dict[str, Any] = ORDER) -> list[str]:
    tool = ToolSpec("submit_action", "Submit.", schema)
    request = ModelRequest((Message("user", text),), tools=(tool,), submit_tool=tool.name)
    return list(copyable_of(request))


@pytest.mark.parametrize(
    ("planted", "found"),
    [
        ('{"side": "BUY"}', 'an example\'s value: "side": "BUY"'),
        ('{"side": "<BUY>"}', 'an example\'s value: "side": "<BUY>"'),
        ('{"side": "..."}', 'an example\'s value: "side": "..."'),
        ('{"confidence": 0.6}', 'an example\'s value: "confidence": 0.6'),
        ('{"confidence":1}', 'an example\'s value: "confidence":1'),
        ('{"reason": "momentum"}', 'an example\'s value: "reason": "momentum"'),
        ("Give a probability, such as 0.7.", "an example: such as 0.7"),
        ("Decide, for example BUY.", "an example: for example BUY"),
        ("Name them in the form [memory: M3].", "an example: in the form [memory: M3]"),
        ("- `confidence`: without a position it is 0.5.", "a value for confidence: is 0.5"),
    ],
)
def test_a_planted_example_is_found(planted: str, found: str) -> None:
    assert found_in(planted) == [found]


@pytest.mark.parametrize(
    "harmless",
    [
        '{"side": "<BUY or SELL>", "confidence": <your probability>, "reason": "<why>"}',
        "Large numbers have an exponent, such as 2.4e7.",  # no field takes such a number
        "- `confidence`: the probability, from 0 to 1",
        "- `reason`: why, in at least 10 characters.",
        'The day:\n```json\n{"side": "BUY", "confidence": 0.6}\n```\nDecide.',
        'look: {"type": "object", "properties": {"k": {"default": 10, "title": "K"}}}',
    ],
)
def test_an_open_form_a_rule_and_data_are_none(harmless: str) -> None:
    assert found_in(harmless) == []


@pytest.mark.parametrize("word", ["default", "examples", "const"])
def test_a_schema_that_suggests_a_value_is_found(word: str) -> None:
    schema = {"type": "object", "properties": {"confidence": {**SHARE, word: 0.6}}}
    assert found_in("Decide.", schema) == [f"a schema's {word}: 0.6"]


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_no_prompt_of_a_task_has_an_example_to_copy(task: str) -> None:
    requests = not_empty(first_requests(task))
    assert {found for request in requests for found in copyable_of(request)} == set()


@pytest.mark.slow
@pytest.mark.parametrize("task", PAGE["tasks"])
@pytest.mark.parametrize("agent", [agent for agent in PAGE["agents"] if agent != "react"])
def test_no_prompt_of_an_agent_has_an_example_to_copy(agent: str, task: str) -> None:
    found = {each for item in asked_of(agent, task) for each in copyable_of(item.request)}
    assert found == set()
