"""Server of the agent `remote`: the tools and the model bridges of many episodes, at one port.

A client names its episode in the header `Ktdeval-Episode`. Clients of the Model Context Protocol
need not do this, since their session remembers the episode that it began.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from email.message import Message
from typing import Protocol

from ktdeval.harness import ToolCall, ToolResult, ToolSpec
from ktdeval_command.desk.bridge_routes import Dialect, dialect_of
from ktdeval_command.desk.bridge_server import KEYS, BridgeAnswers, refusal_in
from ktdeval_command.desk.loopback_server import LoopbackAnswer, ServerLimits, json_answer
from ktdeval_command.desk.mcp_messages import McpMessages
from ktdeval_command.desk.tool_server import SESSION, ToolHandler, ToolServer
from ktdeval_command.wire.refusals import WireError, WireRefusal

EPISODE = "Ktdeval-Episode"  #: header with the id of an episode
TOOLS_PATH = "/tools"
BEGIN = ToolSpec(
    "begin_episode",
    "Begin an episode, or have the day of yours again. Returns its id, the rules and the day.",
    {"type": "object", "properties": {}, "additionalProperties": False},
)
INSTRUCTIONS = """\
Call begin_episode. It returns the rules and the first day. Each day, use the research tools, submit \
once, then call next_day, until you are told that the episode is over. Then call begin_episode for \
another one; where none waits, end."""

_BRIDGE = "/bridge/"
_MAX_CONNECTIONS = 4096


@dataclass(frozen=True, slots=True)
class RemoteCaller:
    """Who makes a request: the open protocol session, and the episode that the request names. Each
    is None if absent.
    """

    session: str | None = None
    episode: str | None = None


@dataclass(frozen=True, slots=True)
class BegunEpisode:
    """Answer to a client that begins an episode."""

    result: ToolResult
    episode: str = ""  #: id under which the client acts; empty if no episode was begun


class RemoteDesk(Protocol):
    """Interface of the object that answers clients."""

    def begin(self, caller: RemoteCaller) -> BegunEpisode:
        """Assign an episode to a client."""

    def tools(self, caller: RemoteCaller) -> Sequence[ToolSpec]:
        """Return the tools that a client may call."""

    def call(self, caller: RemoteCaller, call: ToolCall) -> ToolResult:
        """Answer a call."""

    def bridge(self, holder: str) -> BridgeAnswers | None:
        """Return the model bridge of an episode; None if the client does not hold the episode."""

    def leave(self, session: str) -> None:
        """End a protocol session."""


class RemoteServer(ToolServer):
    """Answers clients of many episodes. The bridge of an episode is at `/bridge/ID`, followed by
    the provider's path. It accepts the server's token as its key.
    """

    noun = "tool server"

    def __init__(self, desk: RemoteDesk, token: str, where: tuple[str, int]) -> None:
        """Start listening. Raises StoreError if listening is not possible."""
        self.desk = desk
        super().__init__(
            lambda: desk.tools(RemoteCaller()),
            lambda call: desk.call(RemoteCaller(), call),
            token,
            INSTRUCTIONS,
            ServerLimits(connections=_MAX_CONNECTIONS),
            where,
        )

    def handler(self) -> type[ToolHandler]:
        """Return the class that answers a connection."""
        return _Handler

    def caller(self, headers: Message) -> RemoteCaller:
        """Return the caller of a request, read from its headers."""
        session = headers.get(SESSION)
        if session is not None and not self.has_session(session):
            session = None
        return RemoteCaller(session, headers.get(EPISODE))

    def messages_of(self, headers: Message) -> McpMessages:
        """Return the messages object for the client that sent these headers."""
        caller = self.caller(headers)

        def tools() -> Sequence[ToolSpec]:
            with self.answering():
                return self.desk.tools(caller)

        def call(call: ToolCall) -> ToolResult:
            with self.answering():
                return self.desk.call(caller, call)

        return McpMessages(tools, call, INSTRUCTIONS)

    def begin(self, headers: Message) -> BegunEpisode:
        """Assign an episode to the client that sent these headers."""
        with self.answering():
            return self.desk.begin(self.caller(headers))

    def end_session(self, session: str) -> None:
        """End a session and release its episode."""
        super().end_session(session)
        self.desk.leave(session)


class _Handler(ToolHandler):
    server: RemoteServer
    once = (*ToolHandler.once, *KEYS, EPISODE.lower())

    def answer_request(self) -> LoopbackAnswer:
        """Return the answer from the bridge of an episode, or from the tools."""
        if not self._is_bridge() or self.command == "DELETE":
            return super().answer_request()
        if self.command == "GET":
            answers, path = self._bridge()
            return answers.listing(path, self._dialect())
        with self.server.answering():
            answers, path = self._bridge()
            return answers.post(path, self.body)

    def call_tool(self, name: str) -> LoopbackAnswer:
        """Call a tool. `begin_episode` also returns the id of the episode."""
        if name != BEGIN.name:
            return super().call_tool(name)

        self.body()
        begun = self.server.begin(self.headers)
        answer = {"text": begun.result.text, "failure": begun.result.failure}
        return json_answer({**answer, "episode": begun.episode or None})

    def check_request(self) -> None:
        """Raise WireError if the request comes from a page on another site, or lacks the token."""
        self.check_origin()
        self.check_bearer_or(*(KEYS if self._is_bridge() else ()))

    def _is_bridge(self) -> bool:
        # Malformed requests have no path.
        return getattr(self, "path", "").startswith(_BRIDGE)

    def _bridge(self) -> tuple[BridgeAnswers, str]:
        """Return the bridge that an address names, and the provider's path after it. Raises
        WireError if the client holds no such episode.
        """
        holder, slash, path = self.path.removeprefix(_BRIDGE).partition("/")
        answers = self.server.desk.bridge(holder)
        if answers is None:
            raise WireError("not_found", "you hold no such episode; call begin_episode")
        return answers, slash + path

    def _dialect(self) -> Dialect:
        path = self.path.removeprefix(_BRIDGE).partition("/")[2]
        return dialect_of(f"/{path}", {name.lower() for name in getattr(self, "headers", ())})

    def refusal_answer(self, refusal: WireRefusal) -> LoopbackAnswer:
        """Return a refusal in the format of the requested service."""
        if self._is_bridge():
            return refusal_in(self._dialect(), refusal)
        return super().refusal_answer(refusal)
