"""A plugin for the tests of `view`: a model that thinks aloud, and on some days does what a page
must stand.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace

from ktdeval.errors import ModelError
from ktdeval.harness import (
    NO_TOOL,
    Decision,
    Message,
    ModelRequest,
    Observation,
    Reply,
    StepSession,
    ToolCall,
    Usage,
)
from ktdeval.hookspecs import Spec, hookimpl
from ktdeval.values import JsonValue

SECRET = "TALKER_API_KEY"  # name of the variable whose value the model says aloud
LETTERS = "TALKER_LETTERS"  # how long it thinks at each call, in letters

INJECTING = 1
NAMING = 2
FAILING = 3
MUDDLED = 4
CUT = 5
TELLING = 6
"""Days on which it writes markup, names a real stock, fails, submits nonsense, is cut off, tells a
secret.
"""

MARKUP = "</script><img src=x onerror=\"document.title='owned'\"><b>bold</b><!-- \u202eodd"
SHOWN_MARKUP = MARKUP.replace("\u202e", "⟨U+202E⟩")  #: as a page shows it


class Talker:
    """Momentum that thinks aloud."""

    def __init__(self) -> None:
        from ktdeval_models.builtin_models import make_builtin

        self._momentum = make_builtin("momentum")

    def reply(self, request: ModelRequest) -> Reply:
        """Answer as momentum does, with reasoning, usage and what the day brings."""
        day = int(re.search(r"\(step (\d+)\)", request.messages[1].content)[1])  # type: ignore[index]
        if not request.tools or request.tool_choice == NO_TOOL:
            return Reply("I doubt it.")

        submits = request.tool_choice is not None
        if day == FAILING and submits:
            raise ModelError("bad_response", "the tests wanted no reply")

        if day == MUDDLED and submits:
            return Reply(
                tool_calls=(ToolCall("call_x", "submit_action", '{"orders": [}'),),
                finish_reason="tool_calls",
            )

        # in two phases: the days below need a request for the submission
        reply = self._momentum.reply(replace(request, may_submit=False))
        thought = f"On day {day} I have read {len(request.messages)} messages. "
        thought += "momentum persists, " * (int(os.environ.get(LETTERS, "0")) // 19)
        usage = Usage(sum(len(message.content) for message in request.messages) // 4, 300, 200, 64)
        reply = replace(reply, reasoning=thought, usage=usage, served_by="talker-2024-01-01")

        if day == INJECTING:
            reply = replace(
                reply, content=f"{reply.content} {MARKUP}", reasoning=f"{thought}{MARKUP}"
            )
            calls = tuple(
                replace(
                    call,
                    arguments=call.arguments.replace(
                        "among the best", "<b>among</b> </script> the best"
                    ),
                )
                for call in reply.tool_calls
            )
            reply = replace(reply, tool_calls=calls)

        if day == NAMING:
            reply = replace(reply, content="asset_0001 is surely 600519.SH")

        if day == CUT and not submits:
            reply = replace(reply, content="I was about to", tool_calls=(), finish_reason="length")

        if day == TELLING:
            reply = replace(
                reply,
                content=f"my key is {os.environ[SECRET]}",
                reasoning=f"{thought}{os.environ[SECRET]}",
            )

        return reply


class TwoMinds:
    """Asks once under a system prompt of its own, then decides as `react` does."""

    def decide(self, observation: Observation, session: StepSession, memory: JsonValue) -> Decision:
        from ktdeval_builtin.react import ReactAgent

        session.ask(
            ModelRequest(
                (Message("system", "You doubt everything."), Message("user", observation.user))
            )
        )
        return ReactAgent().decide(observation, session, memory)


@hookimpl
def ktdeval_agents() -> list[Spec]:
    return [Spec("two_minds", TwoMinds, "doubts before it decides")]


@hookimpl
def ktdeval_models() -> list[Spec]:
    return [Spec("test/talker", lambda name: Talker(), "momentum that thinks aloud")]
