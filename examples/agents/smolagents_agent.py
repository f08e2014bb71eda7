"""smolagents: `pip install 'smolagents[openai,mcp]'`

ktdeval --plugin smolagents_agent.py --agent smolagents --model openai/gpt-5 \
    --tasks blinded_open_research --windows W1 --limit 3 --out run
"""

from ktdeval.api import Spec, hookimpl
from ktdeval_command.framework_agent import FrameworkAgent


def act(desk):
    from smolagents import ActionStep, LogLevel, MCPClient, OpenAIServerModel, ToolCallingAgent

    server = {"transport": "streamable-http", "url": desk.mcp_url, "headers": desk.mcp_headers}
    model = OpenAIServerModel(desk.model, api_base=desk.base_url, api_key=desk.api_key)
    with MCPClient(server, structured_output=False) as tools:
        trader = ToolCallingAgent(tools, model, max_steps=30, verbosity_level=LogLevel.OFF)
        for each in trader.run(desk.prompt, stream=True):
            if isinstance(each, ActionStep) and desk.is_over:
                break


@hookimpl
def ktdeval_agents():
    return [Spec("smolagents", lambda: FrameworkAgent(act), "smolagents")]
