"""Planned step of an external agent, in which nothing external is started or waited for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

from ktdeval.calls import USUAL_TOKENS, prompt_bytes
from ktdeval.harness import (
    Decision,
    Message,
    ModelRequest,
    Reply,
    StepSession,
    decide_in_phases,
    offered_tools,
)
from ktdeval.values import JsonValue, option
from ktdeval_command.desk.agent_desk import BRIDGE

_FILLER = "These words stand for what a program itself sends with each of its calls. "


@dataclass(frozen=True)
class Measured:
    """Tokens and calls that a program itself adds, as measured with a scripted model."""

    version: str = option(help="version of the program that was measured")
    date: str = option(help="day on which it was measured")
    tokens_a_call: int = option(
        help=(
            "tokens of the program's own prompt and tools in each model call, estimated as in "
            "`plan`"
        ),
        minimum=0,
    )
    calls_a_step: int = option(
        help="model calls in a step beyond one per turn of tools, such as for a closing message",
        minimum=0,
    )

    def words(self, program: str) -> str:
        """Return a note on the measurement for a plan."""
        return (
            f"{self.tokens_a_call:,} extra tokens per call, as measured with {program} "
            f"{self.version} on {self.date}"
        )


class _AtBridge:
    """A session whose model calls come through the bridge and include the program's own prompt."""

    def __init__(self, session: StepSession, own: str) -> None:
        self._session = session
        self._own = own

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def ask(self, request: ModelRequest) -> Reply:
        """Call the model under the bridge's role."""
        messages = request.messages
        if self._own:
            messages = (Message("system", self._own), *messages)
            self._session.let_pass(prompt=self._own)
        return self._session.ask(replace(request, messages=messages, role=BRIDGE))


def plan_decision(
    opening: tuple[str, str],
    session: StepSession,
    memory: JsonValue,
    measured: Measured | None = None,
) -> Decision:
    """Decide a step as a built-in agent would, since the requests that a program or client will
    make are unknown. `opening`: rules and day as shown to the agent; `measured`: what the program
    sends in addition.
    """
    system, user = opening
    messages = [Message("system", system), Message("user", user)]
    own = "" if measured is None else _own_words(measured.tokens_a_call)
    bridged = cast("StepSession", _AtBridge(session, own))
    decision = decide_in_phases(messages, bridged, memory)

    further = 0 if measured is None else measured.calls_a_step
    if measured is not None and session.tools and not session.may_submit_early:
        # The text that ends the research is the program's closing message, so that call is already
        # counted.
        further -= 1
    for _ in range(further):
        bridged.ask(ModelRequest(tuple(messages), tools=offered_tools(session)))
    return decision


def _own_words(tokens: int) -> str:
    """Return a text of about `tokens` tokens."""
    once, twice = (
        prompt_bytes(ModelRequest((Message("system", _FILLER * count),))).tokens(USUAL_TOKENS)
        for count in (1, 2)
    )
    return _FILLER * round(tokens / (twice - once))
