"""Trial episodes, in which a component of a plugin runs in a real episode of a few steps. They run
in memory, on a small market generated from a seed, with models that cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from ktdeval.errors import KtdevalError, ModelError
from ktdeval.harness.chat_messages import Model, ModelRequest, Reply, ToolCall, ToolSpec
from ktdeval.harness.submissions.minimal_submission import smallest_value
from ktdeval.harness.traits import ModelTraits
from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.registry.plugin_registry import Plugins
from ktdeval.runner.episodes.episode_execution import EpisodeFactory
from ktdeval.task_api.episode_spec import EpisodeSpec, Window
from ktdeval.task_api.scoring import is_scoring, market_problem, needs_market
from ktdeval.testing.findings import NotCalled
from ktdeval.testing.markets import random_snapshot
from ktdeval.values.documents.strict_json import JsonValue, dumps_canonical

STEPS = 2
WINDOW_DAYS = 5
# mode of the task for trials of agents and models, in which the prompt contains everything
_MODE = "fixed_candidate"

Conduct = Literal["submits", "writes text", "fails"]


class TrialModel:
    """Model for trials, with one of three kinds of conduct.

    `submits`: calls each research tool once with minimal arguments, then submits a minimal form.
    `writes text`: never calls a tool. `fails`: every call fails.
    """

    traits = ModelTraits(is_free=True)

    def __init__(self, conduct: Conduct = "submits") -> None:
        self._conduct = conduct

    def reply(self, request: ModelRequest) -> Reply:
        """Answer a request."""
        if self._conduct == "fails":
            raise ModelError("server", "the trial lets this call fail")
        if self._conduct == "writes text" or not request.tools:
            return Reply("Nothing to say.")

        number = sum(len(message.tool_calls) for message in request.messages)
        if request.tool_choice is not None:
            forced = [tool for tool in request.tools if tool.name == request.tool_choice]
            return _calls(forced, number, request)
        if number:
            return Reply("Nothing more to look up.")

        offered = [tool for tool in request.tools if tool.name != request.submit_tool]
        return _calls(offered, number, request)


def _calls(tools: list[ToolSpec], number: int, request: ModelRequest) -> Reply:
    calls = []
    for offset, tool in enumerate(tools, start=number + 1):
        arguments = _arguments(tool, request)
        calls.append(ToolCall(f"call_{offset}", tool.name, dumps_canonical(arguments)))

    return Reply(tool_calls=tuple(calls), finish_reason="tool_calls")


def _arguments(tool: ToolSpec, request: ModelRequest) -> JsonValue:
    """Return minimal arguments for a tool, or `{}` if no suitable arguments are known."""
    try:
        arguments = smallest_value(tool.parameters)
    except ValueError:
        return {}

    state = request.state
    asks_decisions = isinstance(arguments, dict) and "decisions" in arguments
    if asks_decisions and state is not None and isinstance(arguments, dict):
        items = tool.parameters["properties"]["decisions"]["items"]  # type: ignore[call-overload,index]
        one: Any = smallest_value(items)  # type: ignore[arg-type]
        return {
            **arguments,
            "decisions": [{**one, "stock_id": label} for label in state.candidates],
        }

    return arguments


@dataclass(frozen=True)
class PluginTrial:
    """Small market, and plugins whose components are tried on it."""

    plugins: Plugins

    @cached_property
    def market(self) -> MarketSnapshot:
        """Market of all trials, with 40 assets and 320 days."""
        return random_snapshot()

    @cached_property
    def stage(self) -> Any:
        """Installed trading task for trials of agents and models, whose prompt shows candidates.
        Raises NotCalled if no such task is installed.
        """
        for name, spec in self.plugins.specs("tasks").items():
            if spec.extra.get("config", {}).get("mode") != _MODE:
                continue

            task: Any = self.plugins.make_task(name)
            if not is_scoring(task) and market_problem(task, self.market) is None:
                return task

        raise NotCalled("no installed task shows candidates to try it on")

    def spec(self, task: Any, agent: str = "react") -> EpisodeSpec:
        """Return the spec for a trial of a task, whose window is the last days of the market."""
        market = self.market if needs_market(task) else None
        window = None
        if market is not None:
            days = market.days
            window = Window("trial", str(days[-WINDOW_DAYS]), str(days[-1]))

        return EpisodeSpec(
            task.name,
            task.version,
            "",
            None if market is None else market.id,
            task.mask,
            task.mode,
            window,
            model="trial/model",
            model_args={},
            agent=agent,
            agent_args={},
            limit=STEPS,
        )

    def entries(self, task: Any, model: Model, agent: str = "react") -> Iterator[Any]:
        """Yield the journal entry of each step in a trial. Raises NotCalled if the market lacks
        data that the task needs.
        """
        if needs_market(task):
            problem = market_problem(task, self.market)
            if problem is not None:
                raise NotCalled(f"it needs another market than the check has: {problem}")

        market = self.market if needs_market(task) else None
        factory = EpisodeFactory({task.name: task}, self.plugins, market)
        episode = factory.open(self.spec(task, agent), model)
        for step in range(min(STEPS, episode.total_steps)):
            yield episode.run_step(step)

    def with_agent(self, name: str, conduct: Conduct) -> list[Any]:
        """Return the journal entries of a trial of an agent. Raises NotCalled if the agent refuses
        the task.
        """
        try:
            return list(self.entries(self.stage, TrialModel(conduct), name))
        except KtdevalError as error:
            if error.__cause__ is None and type(error).__name__ in ("UsageError", "ConfigError"):
                raise NotCalled(f"it refuses the task {self.stage.name}: {error}") from error
            raise
