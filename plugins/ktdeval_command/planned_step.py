"""A step of an agent outside as a plan counts it: nothing outside is started or waited for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from ktdeval.harness import (
    Decision,
    Message,
    ModelRequest,
    Reply,
    StepSession,
    decide_in_phases,
)
from ktdeval.values.strict_json import JsonValue
from ktdeval_command.agent_desk import BRIDGE


class _AtBridge:
    """A session whose calls of the model come through the bridge."""

    def __init__(self, session: StepSession) -> None:
        self._session = session

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def ask(self, request: ModelRequest) -> Reply:
        """Ask the model, in the bridge's role."""
        return self._session.ask(replace(request, role=BRIDGE))


def planned(opening: tuple[str, str], session: StepSession, memory: JsonValue) -> Decision:
    """Decide a step as a built-in agent would: what a program or a client asks is not known.
    `opening`: rules and day in the words that are shown outside.
    """
    system, user = opening
    messages = [Message("system", system), Message("user", user)]
    return decide_in_phases(messages, cast("StepSession", _AtBridge(session)), memory)
