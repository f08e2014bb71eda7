"""Traits: records with defaults of what tasks, models and agents may say of themselves."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from itertools import chain
from types import SimpleNamespace
from typing import Any

import pytest

from ktdeval.errors import PluginError
from ktdeval.harness import (
    AgentTraits,
    ModelTraits,
    SubmissionForm,
    ToolSpec,
    agent_traits,
    model_traits,
)
from ktdeval.harness.submissions.submission_form import SubmissionReading, problem
from ktdeval.observation.state import NOTHING_SHOWN
from ktdeval.registry import load_plugins
from ktdeval.task_api import TaskTraits, task_traits
from ktdeval.testing import ConformanceError, check_task

RECORDS = [(model_traits, ModelTraits), (agent_traits, AgentTraits), (task_traits, TaskTraits)]


@pytest.mark.parametrize(("traits_of", "record"), RECORDS)
def test_traits_of_another_record_are_an_error(
    traits_of: Callable[[object], Any], record: type
) -> None:
    wrong = SimpleNamespace(traits={"is_free": True})
    with pytest.raises(
        PluginError, match=rf"^SimpleNamespace: traits must be a {record.__name__}, was dict$"
    ):
        traits_of(wrong)


def test_each_trait_has_a_default_and_words() -> None:
    fields = list(chain.from_iterable(dataclasses.fields(record) for _, record in RECORDS))
    assert [field.name for field in fields if len(field.metadata["help"]) < 20] == []


class Plain(SubmissionForm):
    """Form that has only what it must."""

    tool = ToolSpec("answer", "Answer.", {"type": "object"})

    def read(self, text: str) -> SubmissionReading:
        return SubmissionReading(problem("schema", "(whole)", text))


def test_a_form_offers_one_tool_at_every_step_and_takes_no_plain_text() -> None:
    form = Plain()
    assert form.tool_for(NOTHING_SHOWN, True) is form.tool
    assert form.arguments_of("Buy all of it.") is None


@pytest.mark.parametrize("name", ["form", "lessons", "adds_positions"])
def test_a_scene_has_nothing_that_the_traits_of_its_task_do_not_name(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    task: Any = load_plugins().make_task("blinded_open_research")
    open_scene = task.scene

    def with_more(*arguments: Any) -> Any:
        scene = open_scene(*arguments)
        setattr(scene, name, True)
        return scene

    monkeypatch.setattr(task, "scene", with_more)
    monkeypatch.setattr(task, "traits", TaskTraits(needs_a_shares=True))
    with pytest.raises(ConformanceError, match=f"its scene has '{name}', which only the traits"):
        check_task(task)
