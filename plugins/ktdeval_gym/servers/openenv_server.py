"""Serve tasks as an OpenEnv environment. Importing this needs the extra `openenv`."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from openenv.core.env_server.http_server import create_fastapi_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, EnvironmentMetadata, Observation, State
from pydantic import Field

from ktdeval import __version__
from ktdeval.harness import ModelRequest, Reply, ToolCall
from ktdeval.values import dumps_canonical
from ktdeval_gym.stepwise_episode import AskedEpisode, EpisodeTurn, TaskSource


class Call(Action):  # type: ignore[misc]  # whose types are not read, so that it need not be installed
    """Call of a tool by its name."""

    name: str = Field(description="name of a tool of the observation")
    arguments: dict[str, Any] = Field(default_factory=dict, description="follow the tool's schema")


class TaskAction(Action):  # type: ignore[misc]  # as above
    """Reply of a model: text, calls of tools, or both."""

    content: str = Field(default="", description="text of the reply")
    calls: list[Call] = Field(default_factory=list, description="tools to call, in order")


class TaskObservation(Observation):  # type: ignore[misc]  # as above
    """Request to a model: the conversation so far and the tools on offer. Empty when `done`."""

    messages: list[dict[str, Any]] = Field(default_factory=list, description="role and content")
    tools: list[dict[str, Any]] = Field(
        default_factory=list, description="name, description and JSON Schema of the arguments"
    )
    tool_choice: str | None = Field(default=None, description="tool that must be called")


class TaskState(State):  # type: ignore[misc]  # as above
    """Where an episode is."""

    task: str = ""
    steps_done: int = Field(default=0, description="trading days or samples finished")
    total_steps: int = 0


class TaskEnvironment(Environment[TaskAction, TaskObservation, TaskState]):  # type: ignore[misc]  # as above
    """One session: episodes of the tasks served, one after the other.

    A step is one reply of a model. The reward of a trading task is the log return of NAV over the
    days that the reply finished, after the venue's costs; that of a question is the mean of its
    scores between 0 and 1. It is None while a day or question goes on.
    """

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, tasks: TaskSource) -> None:
        super().__init__()
        self._tasks = tasks
        self._episode: AskedEpisode | None = None
        self._request: ModelRequest | None = None
        self._state = TaskState(episode_id=None, step_count=0)

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, **options: Any
    ) -> TaskObservation:
        """Begin an episode. Options: `task`, one of those served (default: the first)."""
        self.close()
        name = str(options.get("task") or self._tasks.names[0])
        self._episode = AskedEpisode(self._tasks, name, seed or 0)
        self._state = TaskState(episode_id=episode_id or str(uuid4()), step_count=0, task=name)
        return self._observation(self._episode.turn())

    def step(
        self, action: TaskAction, timeout_s: float | None = None, **_options: Any
    ) -> TaskObservation:
        """Give a reply and return the next request. An action before `reset` begins an episode of
        the first task and is ignored.
        """
        del timeout_s  # an episode's own work is limited by its task
        if self._episode is None:
            return self.reset()

        first = 0
        if self._request is not None:
            first = sum(len(message.tool_calls) for message in self._request.messages)
        calls = tuple(
            ToolCall(f"call_{number}", call.name, dumps_canonical(call.arguments))
            for number, call in enumerate(action.calls, first + 1)
        )
        reply = Reply(action.content)
        if calls:
            reply = Reply(action.content, calls, "tool_calls")
        self._episode.reply(reply)
        self._state.step_count += 1
        return self._observation(self._episode.turn())

    @property
    def state(self) -> TaskState:
        """Where the episode is."""
        return self._state

    def get_metadata(self) -> EnvironmentMetadata:
        """Return name, description and version."""
        return EnvironmentMetadata(
            name="ktdeval",
            description=f"Tasks of ktdeval: {', '.join(self._tasks.names)}",
            version=__version__,
        )

    def close(self) -> None:
        """End the episode."""
        if self._episode is not None:
            self._episode.close()
        self._episode = None

    def _observation(self, turn: EpisodeTurn) -> TaskObservation:
        self._request = turn.request
        self._state.steps_done = turn.step
        self._state.total_steps = turn.total_steps
        if turn.request is None:
            return TaskObservation(done=True, reward=turn.reward)

        return TaskObservation(
            done=False,
            reward=turn.reward,
            messages=[message.to_json() for message in turn.request.messages],
            tools=[
                {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": dict(tool.parameters),
                }
                for tool in turn.request.tools
            ],
            tool_choice=turn.request.tool_choice,
        )


def make_app(tasks: TaskSource, max_sessions: int = 8) -> Any:
    """Return the FastAPI application that serves tasks to at most `max_sessions` clients."""
    return create_fastapi_app(
        lambda: TaskEnvironment(tasks),
        TaskAction,
        TaskObservation,
        max_concurrent_envs=max_sessions,
        env_name="ktdeval",
        state_cls=TaskState,
    )
