"""Agents that ask through Inspect's bridges, as a user would write them: `-T agent=MODULE:FUNCTION`."""

from __future__ import annotations

import json
from typing import Any

from inspect_ai.agent import Agent, AgentState, agent, agent_bridge, sandbox_agent_bridge
from inspect_ai.model import ChatMessageUser, get_model, messages_to_openai
from inspect_ai.tool import Tool, ToolDef
from inspect_ai.util import sandbox

SEEN: list[str] = []  # what a sandboxed program wrote


@agent
def openai_client(tools: list[Tool]) -> Agent:
    """An own loop with OpenAI's client, in the process of Inspect."""

    async def execute(state: AgentState) -> AgentState:
        from openai import AsyncOpenAI

        known = {ToolDef(tool).name: tool for tool in tools}
        offered: list[Any] = []
        for tool in tools:
            shown = ToolDef(tool)
            function = {
                "name": shown.name,
                "description": shown.description,
                "parameters": shown.parameters.model_dump(exclude_none=True),
            }
            offered.append({"type": "function", "function": function})

        async with agent_bridge(state) as bridge:
            messages: list[Any] = await messages_to_openai(state.messages)
            client = AsyncOpenAI(api_key="unused", base_url="http://localhost:1")
            while True:
                answer = await client.chat.completions.create(
                    model="inspect", messages=messages, tools=offered
                )
                said = answer.choices[0].message
                messages.append(said.model_dump(exclude_none=True))
                if not said.tool_calls:
                    return bridge.state

                for call in said.tool_calls:
                    result = await known[call.function.name](**json.loads(call.function.arguments))
                    messages.append({"role": "tool", "tool_call_id": call.id, "content": result})

    return execute


IDENTITY = "600519"


@agent
def naming(tools: list[Tool]) -> Agent:
    """An agent that names a stock to its model, then submits."""

    async def execute(state: AgentState) -> AgentState:
        await get_model().generate([ChatMessageUser(content=f"Is it {IDENTITY}.SH?")])
        await submit_a_hold(tools)
        return state

    return execute


@agent
def silent(tools: list[Tool]) -> Agent:
    """An agent that does nothing."""

    async def execute(state: AgentState) -> AgentState:
        return state

    return execute


@agent
def failing(tools: list[Tool]) -> Agent:
    """An agent with a defect."""

    async def execute(state: AgentState) -> AgentState:
        raise ValueError("the agent broke")

    return execute


async def submit_a_hold(tools: list[Tool]) -> None:
    """Submit no orders."""
    known = {ToolDef(tool).name: tool for tool in tools}
    await known["submit_action"](orders=[], overall_reason="nothing to buy today")


PROGRAM = """
import json, sys, time, urllib.error, urllib.request
url, prompt = sys.argv[1], sys.stdin.read()
body = {"model": "inspect", "messages": [{"role": "user", "content": prompt}]}
asked = urllib.request.Request(url + "/chat/completions", json.dumps(body).encode(),
    {"Content-Type": "application/json", "Authorization": "Bearer none"})
for _ in range(100):  # the bridge may be starting
    try:
        print(urllib.request.urlopen(asked).read().decode())
        break
    except urllib.error.URLError:
        time.sleep(0.1)
"""


@agent
def program(tools: list[Tool]) -> Agent:
    """A program in a sandbox that asks once, and whose host submits."""

    async def execute(state: AgentState) -> AgentState:
        async with sandbox_agent_bridge(state, port=13977) as bridge:
            done = await sandbox().exec(
                ["python3", "-c", PROGRAM, f"http://localhost:{bridge.port}/v1"],
                input=state.messages[-1].text,
            )
            SEEN.append(done.stdout + done.stderr)
            await submit_a_hold(tools)
            return bridge.state

    return execute
