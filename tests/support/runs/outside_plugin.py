"""A plugin for the tests of programs: a model that decides by what its conversation shows, so that a
built-in agent and a program get the same decisions of it.
"""

from __future__ import annotations

import json
import os
import re
from typing import Any

from ktdeval.harness import ModelRequest, ModelTraits, Reply, ToolCall
from ktdeval.hookspecs import Spec, hookimpl

DEFECT_AT_CALL = "OUTSIDE_PLUGIN_DEFECT_AT_CALL"  # raise at this model call


class Buyer:
    """Looks twice, says something, submits in a wrong form, and then buys the best two on the first
    day, holds, and sells.
    """

    traits = ModelTraits(is_free=True)

    def __init__(self) -> None:
        self._calls = 0

    def reply(self, request: ModelRequest) -> Reply:
        """Answer by how many turns it has had."""
        self._calls += 1
        if os.environ.get(DEFECT_AT_CALL) == str(self._calls):
            raise ZeroDivisionError("a defect of the model")

        turn = sum(message.role == "assistant" for message in request.messages)
        if turn == 0:
            return _calls("get_market_context", {})
        if turn == 1:
            return _calls("screen_candidates", {"factors": ["MOM_12_1"]})
        if turn == 2:
            return Reply("I have seen enough.")
        if turn == 3:
            return _calls("submit_action", {"orders": "all of them"})

        shown = [message.content for message in request.messages if message.role == "tool"]
        first, second, *_ = dict.fromkeys(re.findall(r"asset_\d+", "\n".join(shown)))
        days = [
            [_order(first, "BUY", 0.1), _order(second, "BUY", 0.05)],
            [],
            [_order(first, "BUY", 0.02)],
        ]
        orders = days[(request.step or 0) % 3]
        return _calls("submit_action", {"orders": orders, "overall_reason": f"{len(orders)}."})


def _calls(name: str, arguments: dict[str, Any]) -> Reply:
    call = ToolCall("call_1", name, json.dumps(arguments))
    return Reply(tool_calls=(call,), finish_reason="tool_calls")


def _order(stock: str, side: str, weight: float) -> dict[str, Any]:
    reason = "It looks right by what is shown."
    given = {"stock_id": stock, "side": side, "confidence": 0.6, "reason": reason}
    return {**given, "target_weight": weight}


@hookimpl
def ktdeval_models() -> list[Spec]:
    """Return the model."""
    return [Spec("outside/buyer", lambda _name, _params=None: Buyer(), "Buys two stocks")]
