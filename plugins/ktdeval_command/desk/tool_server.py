"""The tool server offers the tools of a step to a program, over the Model Context Protocol or plain
HTTP.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from email.message import Message
from functools import partial
from http import HTTPStatus
from urllib.parse import unquote, urlsplit

from ktdeval.harness import ToolCall, ToolResult, ToolSpec
from ktdeval.values import JsonValue
from ktdeval_command.desk.loopback_server import (
    LOOPBACK,
    LoopbackAnswer,
    LoopbackHandler,
    LoopbackServer,
    ServerLimits,
    json_answer,
)
from ktdeval_command.desk.mcp_messages import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    McpMessages,
    refusal_message,
)
from ktdeval_command.wire.refusals import RefusalKind, WireError, WireRefusal
from ktdeval_command.wire.request_fields import MAX_NAME_CHARS

FORMS = ("POST /mcp", "GET /tools", "POST /tools/NAME")
"""Requests that the tool server answers, as named in messages."""

_MCP = "/mcp"
_TOOLS = "/tools"
SESSION = "Mcp-Session-Id"  #: header with the id of the protocol session
_MAX_SESSIONS = 1000
_NOTHING: list[bytes] = []

_STATUS: Mapping[RefusalKind, HTTPStatus] = {
    "bad_request": HTTPStatus.BAD_REQUEST,
    "unsupported": HTTPStatus.BAD_REQUEST,
    "unauthorized": HTTPStatus.UNAUTHORIZED,
    "forbidden": HTTPStatus.FORBIDDEN,
    "leak_stopped": HTTPStatus.FORBIDDEN,
    "budget_spent": HTTPStatus.FORBIDDEN,
    "not_found": HTTPStatus.NOT_FOUND,
    "too_large": HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
}


class ToolServer(LoopbackServer):
    """Lists tools and calls them, at `/mcp` (Streamable HTTP, with answers in JSON) and at
    `/tools`.

    A protocol session has no state: requests without a session are answered, too. The list of tools
    is read for each request; changes are not notified.
    """

    noun = "tool server"

    def __init__(
        self,
        tools: Callable[[], Sequence[ToolSpec]],
        call: Callable[[ToolCall], ToolResult],
        token: str,
        instructions: str = "",
        limits: ServerLimits | None = None,
        where: tuple[str, int] = (LOOPBACK, 0),
    ) -> None:
        """Start listening. `tools` returns the current tools. `call` calls one of them on the
        thread of its connection; several calls may run at once, and the name and the arguments may
        be any text that a program sends. `token` is given to only one program. `instructions` are
        for the program's model. `where` is the host and port to listen on (0: a free port). Raises
        StoreError if listening is not possible.
        """
        self._tools = tools
        self._call = call
        self.messages = McpMessages(self.tools, self._guarded_call, instructions)
        self._sessions: dict[str, None] = {}
        self._sessions_lock = threading.Lock()
        self.origin_hosts = frozenset({"localhost", LOOPBACK, "::1", where[0].lower()})
        super().__init__(self.handler(), token, limits, where)

    def handler(self) -> type[ToolHandler]:
        """Return the class that answers a connection."""
        return ToolHandler

    def messages_of(self, headers: Message) -> McpMessages:  # noqa: ARG002 - for servers of several
        """Return the messages object for a request with these headers."""
        return self.messages

    @property
    def mcp_url(self) -> str:
        """Address for clients of the Model Context Protocol."""
        return self.address + _MCP

    @property
    def tools_url(self) -> str:
        """Address for plain HTTP."""
        return self.address + _TOOLS

    def tools(self) -> Sequence[ToolSpec]:
        """Return the current tools. Raises WireError if the server was closed."""
        with self.answering():
            return self._tools()

    def _guarded_call(self, call: ToolCall) -> ToolResult:
        with self.answering():
            return self._call(call)

    # --- protocol sessions

    def begin_session(self) -> str:
        """Return the id of a new session. If there are more than a thousand sessions, the oldest
        one ends.
        """
        made = secrets.token_hex(16)
        with self._sessions_lock:
            self._sessions[made] = None
            if len(self._sessions) > _MAX_SESSIONS:
                del self._sessions[next(iter(self._sessions))]
        return made

    def has_session(self, session: str) -> bool:
        """Return whether a session is open."""
        with self._sessions_lock:
            return session in self._sessions

    def end_session(self, session: str) -> None:
        """End a session."""
        with self._sessions_lock:
            self._sessions.pop(session, None)


class ToolHandler(LoopbackHandler):
    """Answers requests for tools."""

    server: ToolServer
    once: tuple[str, ...] = (SESSION.lower(), "mcp-protocol-version")

    def do_POST(self) -> None:
        """Answer according to address and method."""
        self.respond(self.answer_request)

    do_GET = do_DELETE = do_POST

    def answer_request(self) -> LoopbackAnswer:
        """Return the answer. Raises KtdevalError if the request is refused."""
        path = self._path()
        methods: Mapping[str, Callable[[], LoopbackAnswer]]
        if path == _MCP:  # a GET would wait for messages that the server never sends on its own
            methods = {"POST": self._messages, "DELETE": self._end_session}
        elif path == _TOOLS:
            methods = {"GET": self._list_tools}
        else:
            methods = {"POST": partial(self.call_tool, self._tool_name(path))}

        answer = methods.get(self.command)
        return self._other_method(", ".join(methods)) if answer is None else answer()

    def _list_tools(self) -> LoopbackAnswer:
        listed: list[JsonValue] = []
        for tool in self.server.messages_of(self.headers).tools():
            listed.append(
                {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.parameters,
                }
            )
        return json_answer({"tools": listed})

    def _end_session(self) -> LoopbackAnswer:
        session = self.headers.get(SESSION)
        if session is None:
            raise WireError("bad_request", f"{SESSION}: which session ends is missing")
        self._check_session()
        self.server.end_session(session)
        return LoopbackAnswer(HTTPStatus.NO_CONTENT, "", _NOTHING)

    def _messages(self) -> LoopbackAnswer:
        self._check_session()
        version = self.headers.get("MCP-Protocol-Version")
        answer = self.server.messages_of(self.headers).answer(self.body(), version)
        if answer.value is None:
            return LoopbackAnswer(answer.status, "", _NOTHING)

        headers = {}
        if answer.begins_session:
            headers[SESSION] = self.server.begin_session()
        return json_answer(answer.value, answer.status, headers)

    def call_tool(self, name: str) -> LoopbackAnswer:
        """Call a tool with the arguments in the body."""
        try:
            arguments = self.body().decode("utf-8")
        except UnicodeDecodeError:
            raise WireError("bad_request", "the body is not UTF-8") from None

        # Text that is not JSON is passed on, so that the task answers it as it answers a model.
        result = self.server.messages_of(self.headers).call(name, arguments or "{}")
        return json_answer({"text": result.text, "failure": result.failure})

    # --- requirements of a request

    def check_request(self) -> None:
        """Raise WireError if the request comes from a page on another site, or lacks the token."""
        self.check_origin()
        self.check_bearer_or()

    def check_origin(self) -> None:
        """Raise WireError if the request comes from a page on another site."""
        origin = self.headers.get("Origin")
        if origin is not None and not self._is_own(origin):
            raise WireError("forbidden", "Origin: pages of other sites can't use this tool server")

    def _is_own(self, origin: str) -> bool:
        try:
            host = urlsplit(origin).hostname
        except ValueError:
            return False
        return host in self.server.origin_hosts

    def _check_session(self) -> None:
        """Raise WireError if the request names a session that is not open."""
        session = self.headers.get(SESSION)
        if session is not None and not self.server.has_session(session):
            raise WireError("not_found", f"{SESSION}: the session has ended; initialize again")

    def _path(self) -> str:
        """Return the address without its query. Raises WireError if the address contains a host."""
        if not self.path.startswith("/") or self.path.startswith("//"):
            raise self._unknown()
        return self.path.partition("?")[0]

    def _tool_name(self, path: str) -> str:
        """Return the tool that an address names. Raises WireError if it names no tool."""
        folder, _, quoted = path.rpartition("/")
        name = unquote(quoted)
        if folder != _TOOLS or not 0 < len(name) <= MAX_NAME_CHARS:
            raise self._unknown()
        return name

    def _unknown(self) -> WireError:
        forms = ", ".join(FORMS)
        return WireError(
            "not_found", f"{self.command} {self.path[:80]}: the tool server answers {forms}"
        )

    # --- answers

    def _other_method(self, allowed: str) -> LoopbackAnswer:
        text = f"{self.command} is not answered here, {allowed} is"
        answer = self.refusal_answer(WireRefusal("unsupported", text))
        return LoopbackAnswer(
            HTTPStatus.METHOD_NOT_ALLOWED, answer.kind, answer.pieces, {"Allow": allowed}
        )

    def refusal_answer(self, refusal: WireRefusal) -> LoopbackAnswer:
        """Return a refusal, as a message of the protocol or in the format for plain HTTP."""
        status = _STATUS.get(refusal.kind, HTTPStatus.INTERNAL_SERVER_ERROR)
        headers = {}
        if refusal.kind == "unauthorized":
            headers["WWW-Authenticate"] = "Bearer"

        # Malformed requests have no path.
        if getattr(self, "path", "").partition("?")[0] != _MCP:
            plain = {"text": refusal.message, "failure": refusal.kind}
            return json_answer(plain, status, headers)

        code = INVALID_REQUEST
        if status == HTTPStatus.INTERNAL_SERVER_ERROR:
            code = INTERNAL_ERROR
        return json_answer(refusal_message(code, refusal.message), status, headers)
