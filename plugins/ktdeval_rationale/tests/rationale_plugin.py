"""A plugin for the tests of `rationale`: momentum that tells stories about whatever identity it is
shown.
"""

from __future__ import annotations

import json
import os
import re
import zlib
from dataclasses import replace
from typing import Any

from ktdeval.harness import ModelRequest, Reply
from ktdeval.hookspecs import Spec, hookimpl

SECRET = "STORYTELLER_API_KEY"  # name of the variable whose value it says aloud, where it is set

MEMORY = (
    "Kweichow Moutai keeps its pricing power. Low drawdown.",
    "A leading semiconductor name, volume confirms.",
    "CATL supplies everybody, momentum is strong.",
    "Strong trend and shallow drawdown, nothing else.",
)
"""Remembered reasons about a stock, by its code; the last is empty."""
SEASON = "As before the Spring Festival of 2016, turnover is low."
GUESSING_STEP = 2
GUESS = "asset_0001 is 600519.SH, I think; anyway momentum leads."

_CODE = re.compile(r"[0-9]{6}\.(?:SH|SZ|BJ)")
_DAY = re.compile(r"Day [0-9]{4}-[0-9]{2}-[0-9]{2} has closed")
_STEP = re.compile(r"\(step ([0-9]+)\)")


def memory_of(code: str) -> str:
    """Return the remembered reason about a code."""
    return MEMORY[zlib.crc32(code.encode()) % len(MEMORY)]


class Storyteller:
    """Trades as momentum does; its reasons hold what it remembers of the codes and days that it
    sees.
    """

    def __init__(self) -> None:
        from ktdeval_models.builtin_models import make_builtin

        self._momentum = make_builtin("momentum")

    def reply(self, request: ModelRequest) -> Reply:
        """Answer as momentum does, in other words."""
        reply = self._momentum.reply(request)
        user = request.messages[1].content
        step = int(_STEP.search(user)[1])  # type: ignore[index]

        if request.tool_choice is None:
            return replace(
                reply,
                content="I look at the candidates first.",
                reasoning="Volatility matters, and costs.",
            )

        calls = [
            replace(call, arguments=self._tell(json.loads(call.arguments), user, step))
            for call in reply.tool_calls
        ]

        return replace(reply, tool_calls=tuple(calls), reasoning=os.environ.get(SECRET, ""))

    @staticmethod
    def _tell(action: dict[str, Any], user: str, step: int) -> str:
        for order in action["orders"]:
            if _CODE.fullmatch(order["stock_id"]):
                order["reason"] = memory_of(order["stock_id"])

        reasons = [MEMORY[step % len(MEMORY)]] if _CODE.search(user) else []
        reasons += [SEASON] if _DAY.search(user) and step % 2 else []
        action["overall_reason"] = " ".join(reasons) or "Momentum persists and costs are small."

        if step == GUESSING_STEP:
            action["overall_reason"] = GUESS

        return json.dumps(action, ensure_ascii=False)


@hookimpl
def ktdeval_models() -> list[Spec]:
    return [Spec("test/storyteller", lambda name: Storyteller(), "momentum that tells stories")]
