"""A keyless model: it looks at one ranking, buys what leads it and holds. It speaks the protocol
that a real model speaks.
"""

from __future__ import annotations

from ktdeval.api import ModelRequest, Reply, ToolCall
from ktdeval.harness import ModelTraits
from ktdeval.values.strict_json import dumps_canonical, loads_strict


class TopFactor:
    """Buys the first `names` of one factor's ranking in equal weights; what it holds by then it
    keeps.

    A pure function of the request: the conversation holds all that it needs, so it keeps no state.
    """

    traits = ModelTraits(is_free=True)  # it calls nobody

    def __init__(self, factor: str, names: int) -> None:
        self._factor = factor
        self._names = names

    def reply(self, request: ModelRequest) -> Reply:
        """Ask for the ranking once; then, when asked to, submit."""
        tools = {tool.name for tool in request.tools}
        results = [message.content for message in request.messages if message.role == "tool"]
        if "submit_action" in tools:
            return _call(
                "submit",
                "submit_action",
                {
                    "orders": self._orders(results),
                    "overall_reason": f"the leaders by {self._factor}",
                },
            )
        if "screen_candidates" in tools and not results:
            return _call(
                "screen", "screen_candidates", {"factors": [self._factor], "k": self._names}
            )
        return Reply("I have seen what I need.")

    def _orders(self, results: list[str]) -> list[dict[str, object]]:
        table = _table(results[0]) if results else []
        weight = round(0.9 / self._names, 4)
        reason = f"among the first {self._names} by {self._factor}"
        return [
            {
                "stock_id": row["stock_id"],
                "side": "BUY",
                "confidence": 0.5,
                "reason": reason,
                "target_weight": min(weight, 0.09),
            }
            for row in table[: self._names]
        ]


def _call(call_id: str, tool: str, arguments: object) -> Reply:
    return Reply(
        tool_calls=(ToolCall(call_id, tool, dumps_canonical(arguments)),),
        finish_reason="tool_calls",
    )


def _table(text: str) -> list[dict[str, object]]:
    """Rows of `screen_candidates`; none where it answered with an error."""
    try:
        table = loads_strict(text)["candidates"]
    except (ValueError, KeyError, TypeError):
        return []
    return [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
