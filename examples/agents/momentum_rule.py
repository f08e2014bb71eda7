"""Agent without a model: holds the five members with the highest momentum, by plain HTTP.

ktdeval --model remote/momentum-rule --agent command \
    --agent-args 'run=python3 examples/agents/momentum_rule.py' --tasks blinded_open_research
"""

import json
import os
import urllib.request
from pathlib import Path

ADDRESS = os.environ["KTDEVAL_TOOLS_URL"].removesuffix("/mcp")
HEADERS = {"Authorization": f"Bearer {os.environ['KTDEVAL_TOOLS_TOKEN']}"}


def call(tool: str, arguments: dict) -> dict:
    """Call a research tool, or submit."""
    body = json.dumps(arguments).encode()
    request = urllib.request.Request(f"{ADDRESS}/tools/{tool}", body, HEADERS)
    with urllib.request.urlopen(request) as answer:
        result = json.load(answer)
    print(tool, result["failure"] or "ok")
    return result


state = json.loads(Path("state.json").read_text())  # task.md has the same in words, with the rules
held = [row[0] for row in state["positions"]["rows"]]
ranked = json.loads(call("screen_candidates", {"factors": ["MOM_12_1"], "k": 5})["text"])
best = [row[0] for row in ranked["candidates"]["rows"]]

reason = "Among the five with the highest momentum of twelve months without the last."
buys = [
    {"side": "BUY", "stock_id": name, "target_weight": 0.08, "confidence": 0.6, "reason": reason}
    for name in best
    if name not in held
]
call("submit_action", {"orders": buys, "overall_reason": "Momentum, held until the end."})
