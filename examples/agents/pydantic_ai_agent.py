"""PydanticAI: `pip install 'pydantic-ai-slim[openai,mcp]'`

ktdeval --plugin pydantic_ai_agent.py --agent pydantic_ai --model openai/gpt-5 \
    --tasks blinded_open_research --windows W1 --limit 3 --out run
"""

from ktdeval.api import Spec, hookimpl
from ktdeval_command.framework_agent import FrameworkAgent


async def act(desk):
    from pydantic_ai import Agent
    from pydantic_ai.mcp import MCPToolset
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    async with desk.async_openai_client() as client:
        model = OpenAIChatModel(desk.model, provider=OpenAIProvider(openai_client=client))
        tools = MCPToolset(desk.mcp_url, headers=desk.mcp_headers, tool_error_behavior="failed")
        async with Agent(model, toolsets=[tools]).iter(desk.prompt) as steps:
            async for _ in steps:
                if desk.is_over:
                    break


@hookimpl
def ktdeval_agents():
    return [Spec("pydantic_ai", lambda: FrameworkAgent(act), "PydanticAI")]
