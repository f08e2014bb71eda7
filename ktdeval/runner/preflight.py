"""Check before a run's first step that its model can act on what its tasks ask and show, at no cost: no model is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ktdeval.contracts.scoring import is_scoring
from ktdeval.contracts.spec import EpisodeSpec
from ktdeval.errors import KtdevalError, UsageError
from ktdeval.harness.messages import ModelRequest, Reply
from ktdeval.harness.reading import shown_state
from ktdeval.plugin_import import call_foreign
from ktdeval.registry import Plugins
from ktdeval.runner.episode import TradingEpisode
from ktdeval.runner.execute import EpisodeFactory
from ktdeval.runner.measure import LOW, MeasuringModel

_FITTING = "builtin/"  # models of this machine that a refusal can name
_FINDERS = ("request_problem", "step_problem")


class _RecordingModel(MeasuringModel):
    """Model that answers as a `MeasuringModel` and keeps the requests."""

    def __init__(self, attempts: int) -> None:
        super().__init__(LOW, 0, attempts)
        self.seen: list[ModelRequest] = []

    def reply(self, request: ModelRequest) -> Reply:
        """Keep one request and answer it."""
        self.seen.append(request)
        return super().reply(request)


def first_requests(spec: EpisodeSpec, task: Any, factory: EpisodeFactory, with_lessons: bool) -> Sequence[ModelRequest]:
    """Return what a model is sent in the first step of an episode, with or without the lessons of its warm-up."""
    model = _RecordingModel(1 + task.harness.schema_retries)
    episode = factory.open(spec, model)
    if isinstance(episode, TradingEpisode):
        episode.has_warm_up = episode.has_warm_up and with_lessons
    episode.run_step(0)
    return model.seen


def check_model(
    name: str, model: object, specs: Iterable[EpisodeSpec], make_factory: Callable[[], EpisodeFactory], plugins: Plugins
) -> None:
    """Raise UsageError where a model says that it can't act on a task of these episodes; it names the models that could.

    A model says so by `step_problem(requests)`, of all requests of a first step, or by `request_problem(request)`, of one.
    """
    if not _says_what_it_needs(model):
        return
    factory = make_factory()
    firsts = {spec.task: spec for spec in reversed(list(specs))}
    for task_name, spec in sorted(firsts.items()):
        step = _FirstStep(spec, factory)
        if problem := _problem(name, model, step.shown_to(model)):
            fitting = ", ".join(_fitting(step, plugins)) or "none that is built in"
            raise UsageError(f"{problem}; task {task_name} {_given(step.task, step.shown_to(model))}; models that fit: {fitting}")


def _says_what_it_needs(model: object) -> bool:
    return any(hasattr(model, finder) for finder in _FINDERS)


class _FirstStep:
    """First step of a task's first episode, shown at most twice: with the lessons of a warm-up, and without."""

    def __init__(self, spec: EpisodeSpec, factory: EpisodeFactory) -> None:
        self.task: Any = factory.task(spec.task)
        self._spec, self._factory = spec, factory
        self._requests: dict[bool, Sequence[ModelRequest]] = {}

    def shown_to(self, model: object) -> Sequence[ModelRequest]:
        """Return what a model would be sent."""
        with_lessons = bool(getattr(model, "needs_lessons", False))
        if with_lessons not in self._requests:
            where = f"task {self._spec.task}, agent {self._spec.agent}: its first step can't be shown"
            parts = (self._spec, self.task, self._factory, with_lessons)
            self._requests[with_lessons] = call_foreign(first_requests, where, *parts)
        return self._requests[with_lessons]


def _problem(name: str, model: object, requests: Sequence[ModelRequest]) -> str | None:
    """Return why a model can't act in this step; None where it can."""
    of_request, of_step = (getattr(model, finder, None) for finder in _FINDERS)
    if of_request is not None:
        for request in requests:
            if problem := call_foreign(of_request, f"model {name}: request_problem()", request):
                return str(problem)
    if of_step is not None and (problem := call_foreign(of_step, f"model {name}: step_problem()", requests)):
        return f"{name} {problem}"
    return None


def _given(task: Any, requests: Sequence[ModelRequest]) -> str:
    """Say what a task gives: the tables of its prompt, and its research tools; of a scoring task, that it asks questions."""
    if is_scoring(task):
        return "asks questions and takes no orders"
    states = [shown_state(message.content) for request in requests for message in request.messages if message.role == "user"]
    shown = sorted({key for state in states for key in state if isinstance(state[key], dict | list)})
    tools = sorted({tool.name for request in requests if request.tool_choice is None for tool in request.tools})
    return f"shows {', '.join(shown) or 'no tables'} and offers {', '.join(tools) or 'no research tools'}"


def _fitting(step: _FirstStep, plugins: Plugins) -> list[str]:
    """Return the built-in models that say what they need, and can act in a step without parameters."""
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
