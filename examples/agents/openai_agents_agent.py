"""OpenAI Agents SDK: `pip install openai-agents`

ktdeval --plugin openai_agents_agent.py --agent openai_agents --model openai/gpt-5 \
    --tasks blinded_open_research --windows W1 --limit 3 --out run
"""

from ktdeval.api import Spec, hookimpl
from ktdeval_command.framework_agent import FrameworkAgent


async def act(desk):
    from agents import (
        Agent,
        OpenAIChatCompletionsModel,
        RunConfig,
        Runner,
        ToolsToFinalOutputResult,
    )
    from agents.mcp import MCPServerStreamableHttp

    server = MCPServerStreamableHttp({"url": desk.mcp_url, "headers": desk.mcp_headers})
    async with desk.async_openai_client() as client, server:
        trader = Agent(
            "trader",
            model=OpenAIChatCompletionsModel(desk.model, client),
            mcp_servers=[server],
            tool_use_behavior=lambda context, results: ToolsToFinalOutputResult(desk.is_over),
        )
        # A trace would be sent to OpenAI, past the bridge.
        config = RunConfig(tracing_disabled=True)
        await Runner.run(trader, desk.prompt, max_turns=30, run_config=config)


@hookimpl
def ktdeval_agents():
    return [Spec("openai_agents", lambda: FrameworkAgent(act), "OpenAI Agents SDK")]
