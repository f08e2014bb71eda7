"""Claude Agent SDK, as a program in a sandbox: `pip install claude-agent-sdk`

ktdeval --agent command --agent-args run='python claude_sdk_agent.py' --model anthropic/claude-sonnet-4-5 \
    --tasks blinded_open_research --windows W1 --limit 3 --out run
"""

import asyncio
import os
import sys

from claude_agent_sdk import ClaudeAgentOptions, query

TOOLS = {
    "type": "http",
    "url": os.environ["KTDEVAL_TOOLS_URL"],
    "headers": {"Authorization": f"Bearer {os.environ['KTDEVAL_TOOLS_TOKEN']}"},
}


async def main():
    # The SDK starts Claude Code, which asks the bridge by ANTHROPIC_BASE_URL and ANTHROPIC_API_KEY.
    options = ClaudeAgentOptions(
        model=os.environ["KTDEVAL_MODEL"],
        tools=[],  # none of its own: no shell, no files, no search
        mcp_servers={"ktdeval": TOOLS},
        strict_mcp_config=True,
        allowed_tools=["mcp__ktdeval"],
        setting_sources=[],
        max_turns=30,
        env={"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "ENABLE_TOOL_SEARCH": "false"},
    )
    async for message in query(prompt=sys.stdin.read(), options=options):
        print(message)


asyncio.run(main())
