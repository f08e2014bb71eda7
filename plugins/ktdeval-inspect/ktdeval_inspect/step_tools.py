"""Tools of a step as tools of Inspect."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import anyio
import anyio.to_thread
from inspect_ai.tool import Tool, ToolDef, ToolParams

from ktdeval.harness import ExternalSession, RefusedAct, ToolCall, ToolSpec

Given = TypeVar("Given")
Answer = TypeVar("Answer")

ACCEPTED = "Accepted: this is the decision of the step, and it stands. The step is over."


def step_tools(acting: ExternalSession) -> list[Tool]:
    """Return the research tools of a step and the tool that submits."""
    tools = []
    for spec in acting.tools:
        tools.append(_tool(spec, partial(_research, acting, spec.name)))

    tools.append(_tool(acting.submit_tool, partial(_submit, acting)))
    return tools


def _tool(spec: ToolSpec, answer: Callable[[str], str]) -> Tool:
    async def call(**kwargs: Any) -> str:
        return await in_thread(answer, json.dumps(kwargs))

    parameters = ToolParams.model_validate(dict(spec.parameters))
    return ToolDef(call, spec.name, spec.description, parameters).as_tool()


async def in_thread(work: Callable[[Given], Answer], given: Given) -> Answer:
    """Run a blocking function in its own thread: it computes or waits for this event loop."""
    return await anyio.to_thread.run_sync(work, given, limiter=anyio.CapacityLimiter(1))


def _research(acting: ExternalSession, name: str, arguments: str) -> str:
    try:
        return acting.call_tool(ToolCall("", name, arguments)).text
    except RefusedAct as refused:
        return _error(refused)


def _submit(acting: ExternalSession, arguments: str) -> str:
    try:
        submission = acting.submit(arguments)
    except RefusedAct as refused:
        return _error(refused)

    return submission.feedback if submission.action is None else ACCEPTED


def _error(refused: RefusedAct) -> str:
    return json.dumps({"error": {"kind": refused.kind, "problem": str(refused)}})
