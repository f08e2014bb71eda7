"""Check before a run's first step that its model can act on what its tasks ask and show, at no
cost: no model is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ktdeval.errors import KtdevalError, UsageError
from ktdeval.harness.messages import ModelRequest, Reply
from ktdeval.harness.traits import model_traits
from ktdeval.plugins.plugin_import import call_foreign
from ktdeval.plugins.registry import Plugins
from ktdeval.runner.episode import TradingEpisode
from ktdeval.runner.execute import EpisodeFactory
from ktdeval.runner.measure import LOW, MeasuringModel
from ktdeval.tasks.scoring import is_scoring
from ktdeval.tasks.spec import EpisodeSpec

_FITTING = "builtin/"  # models of this machine that a refusal can name


class _RecordingModel(MeasuringModel):
    """Model that answers as a `MeasuringModel` and keeps the requests."""

    def __init__(self, attempts: int) -> None:
        super().__init__(LOW, 0, attempts)
        self.seen: list[ModelRequest] = []

    def reply(self, request: ModelRequest) -> Reply:
        """Keep one request and answer it."""
        self.seen.append(request)
        return super().reply(request)


def first_requests(
    spec: EpisodeSpec, task: Any, factory: EpisodeFactory, with_lessons: bool
) -> Sequence[ModelRequest]:
    """Return what a model is sent in the first step of an episode, with or without the lessons of
    its warm-up.
    """
    model = _RecordingModel(1 + task.harness.schema_retries)
    episode = factory.open(spec, model)
    if isinstance(episode, TradingEpisode):
        episode.has_warm_up = episode.has_warm_up and with_lessons

    episode.run_step(0)
    return model.seen


def check_model(
    name: str,
    model: object,
    specs: Iterable[EpisodeSpec],
    make_factory: Callable[[], EpisodeFactory],
    plugins: Plugins,
) -> None:
    """Raise UsageError where a model says that it can't act on a task of these episodes; it names
    the models that could.

    A model says so by its traits: `step_problem`, of all requests of a first step, or
    `request_problem`, of one.
    """
    if not _says_what_it_needs(model):
        return

    factory = make_factory()
    firsts = {spec.task: spec for spec in reversed(list(specs))}
    for task_name, spec in sorted(firsts.items()):
        step = _FirstStep(spec, factory)
        problem = _problem(name, model, step.shown_to(model))
        if problem:
            fitting = ", ".join(_fitting(step, plugins)) or "none that is built in"
            raise UsageError(
                f"{problem}; task {task_name} {_given(step.task, step.shown_to(model))}; models"
                f" that fit: {fitting}"
            )


def _says_what_it_needs(model: object) -> bool:
    traits = model_traits(model)
    return traits.request_problem is not None or traits.step_problem is not None


class _FirstStep:
    """First step of a task's first episode, shown at most twice: with the lessons of a warm-up, and
    without.
    """

    def __init__(self, spec: EpisodeSpec, factory: EpisodeFactory) -> None:
        self.task: Any = factory.task(spec.task)
        self._spec = spec
        self._factory = factory
        self._requests: dict[bool, Sequence[ModelRequest]] = {}

    def shown_to(self, model: object) -> Sequence[ModelRequest]:
        """Return what a model would be sent."""
        with_lessons = model_traits(model).needs_lessons
        if with_lessons not in self._requests:
            spec = self._spec
            where = f"task {spec.task}, agent {spec.agent}: its first step can't be shown"
            self._requests[with_lessons] = call_foreign(
                first_requests, where, spec, self.task, self._factory, with_lessons
            )

        return self._requests[with_lessons]


def _problem(name: str, model: object, requests: Sequence[ModelRequest]) -> str | None:
    """Return why a model can't act in this step; None where it can."""
    # an exchange that is closed on the first day: nothing is asked, so nothing can be missing
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


def _given(task: Any, requests: Sequence[ModelRequest]) -> str:
    """Say what a task gives: the tables of its prompt, and its research tools; of a scoring task,
    that it asks questions.
    """
    if is_scoring(task):
        return "asks questions and takes no orders"

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


def _fitting(step: _FirstStep, plugins: Plugins) -> list[str]:
    """Return the built-in models that say what they need, and can act in a step without
    parameters.
    """
    fitting = []
    for name in sorted(plugins.specs("models")):
        if not name.startswith(_FITTING):
            continue

        try:
            model = plugins.make_model(name, {})
            if _says_what_it_needs(model) and not _problem(name, model, step.shown_to(model)):
                fitting.append(name)
        except KtdevalError:  # it needs parameters, or fails at them
            continue

    return fitting
