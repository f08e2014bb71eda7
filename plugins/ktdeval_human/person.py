"""A person as a model: the person is shown each request, and the person's action becomes the reply."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from ktdeval.errors import ConfigError, ProviderError
from ktdeval.harness import ModelRequest, ModelTraits, Reply, ToolCall
from ktdeval_human.shown import ShownRequest, show_request

_WHO = re.compile(r"[A-Za-z0-9_-]{0,40}\Z")


@dataclass(frozen=True, slots=True)
class Called:
    """A tool that a person calls, with checked arguments as JSON. It may be the submit tool."""

    tool: str
    arguments: str


@dataclass(frozen=True, slots=True)
class PersonWords:
    """Text from a person, either because no tool is offered, or to end the research."""

    text: str


Act = Called | PersonWords


class Desk(Protocol):
    """Interface to a person: a terminal or a page."""

    def ask(self, moment: ShownRequest) -> Act:
        """Show a moment and wait for the person's action.

        Raises KeyboardInterrupt if the person leaves. Raises ProviderError if no person can be
        asked here.
        """


class Person:
    """Model whose replies come from a person, one at a time.

    A submission in the research phase of an agent ends that phase. When the agent then asks for the
    submission, the same submission is sent, without asking the person twice. The number of seconds
    that a reply took is in its `reasoning`, which is recorded but never sent. If the person leaves,
    KeyboardInterrupt is raised: no call has failed, the step is not recorded, and the same command
    continues with this step.
    """

    traits = ModelTraits(is_free=True, is_person=True)

    def __init__(
        self, open_desk: Callable[[], Desk], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Ask the person at a desk, which is opened at the first request. `clock` returns monotonic
        seconds.
        """
        self._open_desk = open_desk
        self._clock = clock
        self._desk: Desk | None = None
        self._is_asked = threading.Lock()
        self._submitted: tuple[int | None, str | None, Called] | None = None

    def reply(self, request: ModelRequest) -> Reply:
        """Answer one request.

        Raises ProviderError if no person can be asked, or if the person is already being asked.
        """
        if not self._is_asked.acquire(blocking=False):
            raise ProviderError(
                "a person can decide only one step at a time; leave --concurrency out, and run "
                "again"
            )

        try:
            began = self._clock()
            act = self._act(request)
            seconds = self._clock() - began
        finally:
            self._is_asked.release()

        return _reply_of(act, request, seconds)

    def _act(self, request: ModelRequest) -> Act:
        moment = show_request(request)
        earlier = self._submitted
        self._submitted = None
        is_asked_for = moment.is_final and moment.submit is not None
        if earlier is not None and is_asked_for and earlier[:2] == (request.step, request.role):
            return earlier[2]

        if self._desk is None:
            self._desk = self._open_desk()

        act = self._desk.ask(moment)
        is_early = isinstance(act, Called) and act.tool == request.submit_tool
        if is_early and not is_asked_for and not request.may_submit:
            assert isinstance(act, Called)
            self._submitted = (request.step, request.role, act)
        return act


def _reply_of(act: Act, request: ModelRequest, seconds: float) -> Reply:
    made = Reply(reasoning=f"answered in {seconds:.1f} s")
    if isinstance(act, PersonWords):
        return replace(made, content=act.text)

    number = 1 + sum(len(message.tool_calls) for message in request.messages)
    call = ToolCall(f"call_{number}", act.tool, act.arguments)
    return replace(made, tool_calls=(call,), finish_reason="tool_calls")


def check_name(who: str) -> None:
    """Raise ConfigError if a person's name can't be part of a folder name."""
    if not _WHO.match(who):
        raise ConfigError(f"who: {who[:60]!r} is not a name of at most 40 letters, digits, - and _")
