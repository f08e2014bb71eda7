"""LangGraph: `pip install langgraph langchain-openai langchain-mcp-adapters`

ktdeval --plugin langgraph_agent.py --agent langgraph --model openai/gpt-5 \
    --tasks blinded_open_research --windows W1 --limit 3 --out run
"""

from ktdeval.api import Spec, hookimpl
from ktdeval_command.framework_agent import FrameworkAgent


async def act(desk):
    from langchain_mcp_adapters.client import MultiServerMCPClient
    from langchain_openai import ChatOpenAI
    from langgraph.graph import END, START, MessagesState, StateGraph
    from langgraph.prebuilt import ToolNode, tools_condition

    server = {"transport": "http", "url": desk.mcp_url, "headers": desk.mcp_headers}
    tools = await MultiServerMCPClient({"ktdeval": server}).get_tools()
    model = ChatOpenAI(model=desk.model, base_url=desk.base_url, api_key=desk.api_key)
    asked = model.bind_tools(tools)

    async def think(state):
        return {"messages": [await asked.ainvoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("think", think)
    graph.add_node("tools", ToolNode(tools))
    graph.add_edge(START, "think")
    graph.add_conditional_edges("think", tools_condition)
    graph.add_conditional_edges("tools", lambda state: END if desk.is_over else "think")
    await graph.compile().ainvoke({"messages": [("user", desk.prompt)]}, {"recursion_limit": 60})


@hookimpl
def ktdeval_agents():
    return [Spec("langgraph", lambda: FrameworkAgent(act), "LangGraph")]
