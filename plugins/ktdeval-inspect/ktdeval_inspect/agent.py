"""Agents of Inspect as an agent of ktdeval: each step is one run of the agent.

The agent gets the task's research tools and the submit tool as tools of Inspect. It asks the model
of its evaluation through the step's session (`step_model`). So every call is part of the step: it
is checked, counted, recorded, and replayed when the card is verified.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, cast

import anyio.from_thread
from inspect_ai.agent import Agent, BridgedToolsSpec, react, run
from inspect_ai.model import ChatMessageSystem, ChatMessageUser, get_model
from inspect_ai.model._model import (  # inspect-evals-lint: ignore[private_api_imports] -- no public way
    active_model_context_var,
)
from inspect_ai.tool import Tool

from ktdeval.errors import KtdevalError, UsageError
from ktdeval.harness import (
    END,
    AgentTraits,
    Decision,
    ExternalSession,
    Message,
    Observation,
    StepSession,
    act_outside,
    decide_in_phases,
    one_submission,
)
from ktdeval.values import JsonValue
from ktdeval_inspect.agent_params import InspectAgentParams
from ktdeval_inspect.model import SampleError, current_sample
from ktdeval_inspect.step_model import MODEL, current_step
from ktdeval_inspect.step_tools import step_tools

AgentMaker = Callable[[list[Tool]], Agent]

_OF_INSPECT_SWE = (
    "antigravity",
    "claude_code",
    "codex_cli",
    "gemini_cli",
    "kimi_code",
    "mini_swe_agent",
    "opencode",
)


class InspectAgent:
    """Lets an agent of Inspect decide."""

    def __init__(self, params: InspectAgentParams) -> None:
        self._params = params
        self.traits = AgentTraits(acts_outside=True)

    def decide(self, observation: Observation, session: StepSession, memory: JsonValue) -> Decision:
        """Decide one step by one run of the agent; hold if it submits nothing. Raises SampleError
        if the agent or its model failed; UsageError if no sample of Inspect is running.
        """
        procedure = one_submission(observation, session, END)
        opening = [
            Message("system", observation.system_with(procedure)),
            Message("user", observation.user),
        ]

        def run_agent(acting: ExternalSession) -> JsonValue:
            _run_in_sample(self._params.agent, opening, acting)
            return None

        # Inspect's sandbox may have network access, and `react` has no sandbox: no isolation is
        # claimed.
        step = act_outside(session, run_agent, "none", self._params.calls)
        if step is None:
            return decide_in_phases(opening, session, memory)

        return step.decision(memory)


def _run_in_sample(name: str, opening: list[Message], acting: ExternalSession) -> None:
    """Run the agent from the worker thread of an episode, in the event loop of its sample."""
    sample = current_sample.get(None)
    if sample is None:
        raise UsageError(
            "agent inspect: runs only within Inspect: inspect eval ktdeval_inspect/ktdeval_task "
            f"-T agent={name}"
        )

    async def run_agent() -> None:
        # A task of its own: only the agent sees what is set here.
        current_step.set(acting)
        active_model_context_var.set(get_model(MODEL))
        agent = agent_maker(name)(step_tools(acting))
        system, user = opening
        shown = [ChatMessageSystem(content=system.content), ChatMessageUser(content=user.content)]
        await run(agent, shown)

    try:
        anyio.from_thread.run(run_agent)
    except KtdevalError:
        raise
    except BaseException as error:
        if sample.error is None:
            sample.error = error
        raise SampleError(f"agent {name}: {type(error).__name__}: {error}") from error


def agent_maker(name: str) -> AgentMaker:
    """Return a function that makes an agent from the step's tools. Raises UsageError if the name is
    unknown, or its package is not installed.
    """
    if name == "react":
        return _react
    if name in _OF_INSPECT_SWE:
        return _of_inspect_swe(name)

    module, _, function = name.partition(":")
    if not module or not function:
        known = ", ".join(("react", *_OF_INSPECT_SWE))
        raise UsageError(f"agent={name}: expected one of {known}, or MODULE:FUNCTION")

    try:
        return cast("AgentMaker", getattr(importlib.import_module(module), function))
    except (ImportError, AttributeError) as error:
        raise UsageError(f"agent={name}: {error}") from error


def _react(tools: list[Tool]) -> Agent:
    return react(tools=tools, submit=False)


def _of_inspect_swe(name: str) -> AgentMaker:
    try:
        make: Any = getattr(importlib.import_module("inspect_swe"), name)
    except (ImportError, AttributeError) as error:
        raise UsageError(f"agent={name}: {error}; pip install -U inspect-swe") from error

    def agent_of(tools: list[Tool]) -> Agent:
        # Codex writes code that calls tools; each such call is an act of the step, too.
        served = BridgedToolsSpec(name="ktdeval", tools=tools, require_proposal=False)
        return cast("Agent", make(bridged_tools=[served]))

    return agent_of
