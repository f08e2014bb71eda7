"""Checks before a run's first step that its model can handle the requests and data of its tasks.
They cost nothing, since no model is called.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ktdeval.errors import KtdevalError, UsageError
from ktdeval.harness.chat_messages import ModelRequest
from ktdeval.harness.traits import model_traits
from ktdeval.registry.plugin_boundary import call_foreign
from ktdeval.registry.plugin_registry import Plugins
from ktdeval.runner.plans.config import RunConfig
from ktdeval.runner.rehearsals.rehearsal import FirstStep, ShownStep, by_task
from ktdeval.task_api.scoring import is_scoring

_FITTING = "builtin/"  # prefix of the local models that an error message may suggest


def check_model(name: str, model: object, rehearsal: Sequence[FirstStep], plugins: Plugins) -> None:
    """Raise UsageError if a model declares that it can't handle the first steps of a task. The
    message suggests built-in models that can.

    A model declares this through its traits: `step_problem` is called with all requests of a first
    step, `request_problem` with a single request.
    """
    if not _says_what_it_needs(model):
        return

    for task_name, steps in by_task(rehearsal).items():
        first = steps[0]
        requests = _shown_to(model, first)
        problem = _model_problem(name, model, requests)
        if problem:
            fitting = ", ".join(_fitting(first, plugins)) or "none that is built in"
            raise UsageError(
                f"{problem}; task {task_name} {_describe_inputs(first.task, requests)}; models that fit:"
                f" {fitting}"
            )


def check_person(name: str, config: RunConfig, is_shared: bool) -> None:
    """Raise UsageError if a run's model is a person and would be asked for several episodes at
    once, or in another process.

    `name`: the name of the model. `is_shared`: True if several processes share the run.
    """
    if config.concurrency > 1:
        raise UsageError(
            f"--concurrency {config.concurrency}: {name} is a person, who decides one step at a"
            " time; omit the option"
        )
    if config.runner != "local":
        raise UsageError(
            f"--runner {config.runner}: {name} is a person at this machine; omit the option"
        )
    if is_shared:
        raise UsageError(
            f"{name} is a person at this machine, and workers run elsewhere; use `ktdeval run`"
        )


def _says_what_it_needs(model: object) -> bool:
    traits = model_traits(model)
    return traits.request_problem is not None or traits.step_problem is not None


def _shown_to(model: object, first: FirstStep) -> Sequence[ModelRequest]:
    """Return the requests that a model would receive in an episode's first step."""
    spec = first.spec
    with_lessons = model_traits(model).needs_lessons
    where = f"task {spec.task}, agent {spec.agent}: its first step can't be shown"
    shown: ShownStep = call_foreign(first.play_shown, where, with_lessons)
    return shown.requests


def _model_problem(name: str, model: object, requests: Sequence[ModelRequest]) -> str | None:
    """Return why a model can't handle this step; None if it can."""
    # without requests, for example because the exchange is closed on the first day, no input can be
    # missing
    if not requests:
        return None

    traits = model_traits(model)
    if traits.request_problem is not None:
        where = f"model {name}: request_problem()"
        for request in requests:
            problem = call_foreign(traits.request_problem, where, request)
            if problem:
                return str(problem)

    if traits.step_problem is not None:
        problem = call_foreign(traits.step_problem, f"model {name}: step_problem()", requests)
        if problem:
            return f"{name} {problem}"

    return None


def _describe_inputs(task: Any, requests: Sequence[ModelRequest]) -> str:
    """Return a description of a task's inputs: the tables in its prompt and its research tools. The
    description of a scoring task only says that it asks questions.
    """
    if is_scoring(task):
        return "asks questions and does not accept orders"

    tables = set[str]()
    tools = set[str]()
    for request in requests:
        if request.state is not None:
            sections = request.state.values
            tables.update(name for name in sections if isinstance(sections[name], dict | list))
        tools.update(tool.name for tool in request.tools)
        tools.discard(request.submit_tool)

    return (
        f"shows {', '.join(sorted(tables)) or 'no tables'} and offers"
        f" {', '.join(sorted(tools)) or 'no research tools'}"
    )


def _fitting(first: FirstStep, plugins: Plugins) -> list[str]:
    """Return the built-in models that declare what they need and can handle a step with their
    default parameters.
    """
    fitting = []
    for name in sorted(plugins.specs("models")):
        if not name.startswith(_FITTING):
            continue

        try:
            model = plugins.make_model(name, {})
            if _says_what_it_needs(model) and not _model_problem(
                name, model, _shown_to(model, first)
            ):
                fitting.append(name)
        except KtdevalError:  # the model needs parameters, or fails on the step
            continue

    return fitting
