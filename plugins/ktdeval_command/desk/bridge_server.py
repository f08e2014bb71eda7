"""The model bridge: a local server that programs use in place of their provider."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path

from ktdeval.harness import Reply, with_distinct_ids
from ktdeval_command.desk.bridge_routes import (
    Count,
    Dialect,
    answer_get,
    dialect_of,
    route_post,
)
from ktdeval_command.desk.call_memory import CallMemory
from ktdeval_command.desk.loopback_server import (
    LOOPBACK,
    LoopbackAnswer,
    LoopbackHandler,
    LoopbackServer,
    ServerLimits,
    json_answer,
)
from ktdeval_command.wire.bridge_request import BridgeRequest, estimated_tokens
from ktdeval_command.wire.declared_form import declared_form
from ktdeval_command.wire.refusals import WireRefusal

KEYS = ("x-api-key", "x-goog-api-key")  #: headers in which providers expect the key

Answer = Callable[[BridgeRequest], Reply]
"""Answers one request, on the thread of its connection; several calls may run at once. If it raises
a KtdevalError, the error is reported to the program in its provider's format. If the error must end
the step, as an exhausted budget does, the caller keeps it.
"""
TokenCounter = Callable[[BridgeRequest], int]


class BridgeAnswers:
    """Answers the HTTP requests to one bridge."""

    def __init__(
        self, answer: Answer, model: str, count_tokens: TokenCounter = estimated_tokens
    ) -> None:
        """`model` is the name shown in listings."""
        self._answer = answer
        self._model = model
        self._count_tokens = count_tokens
        self._memory = CallMemory()
        self._numbers = itertools.count(1)

    def post(self, path: str, body: Callable[[], bytes]) -> LoopbackAnswer:
        """Answer a request for a reply or for a token count. `body` reads the body of the request.
        Raises KtdevalError if the request is refused or the call failed.
        """
        route = route_post(path)
        request = route.read(body())
        request = replace(request, messages=self._memory.restore_messages(request.messages))
        if isinstance(route, Count):
            return json_answer(route.write(self._count_tokens(request)))

        earlier = []
        for message in request.messages:
            earlier += [call.id for call in message.tool_calls]
        reply = with_distinct_ids(self._answer(request), earlier)
        self._memory.keep(reply)

        number = next(self._numbers)
        if request.streams:
            events = route.stream(reply, request, number)
            return LoopbackAnswer(HTTPStatus.OK, "text/event-stream; charset=utf-8", events)
        return json_answer(route.write(reply, request, number))

    def listing(self, path: str, dialect: Dialect) -> LoopbackAnswer:
        """Return a listing of models. Raises WireError if the address is not that of a listing."""
        return json_answer(answer_get(path, self._model, dialect))


def refusal_in(dialect: Dialect, refusal: WireRefusal) -> LoopbackAnswer:
    """Return a refusal in a provider's format."""
    status, body = declared_form(dialect).error(refusal)
    # The SDKs of OpenAI and Anthropic obey this header. They need not retry, since the run has
    # already retried whenever a retry can help.
    return json_answer(body, status, {"x-should-retry": "false"})


class BridgeServer(LoopbackServer):
    """Accepts requests as providers do, and answers with replies from the run's model. A stream
    sends a complete reply as events.

    `address` has no path, as `ANTHROPIC_BASE_URL` and `GOOGLE_GEMINI_BASE_URL` expect; for
    `OPENAI_BASE_URL` append `/v1`.
    """

    noun = "bridge"

    def __init__(
        self,
        answer: Answer,
        token: str,
        model: str,
        count_tokens: TokenCounter = estimated_tokens,
        limits: ServerLimits | None = None,
        unix_socket: Path | None = None,
    ) -> None:
        """Start listening. `token`: secret given to only one program; `model`: name shown in
        listings; `unix_socket`: path of a Unix socket to listen on, for programs in their own
        network namespace (default: a free port). Raises StoreError if listening is not possible.
        """
        self._answer = answer
        self.answers = BridgeAnswers(self.ask, model, count_tokens)
        super().__init__(_Handler, token, limits, unix_socket or (LOOPBACK, 0))

    def ask(self, request: BridgeRequest) -> Reply:
        """Answer a request. Raises WireError if the server was closed."""
        with self.answering():
            return self._answer(request)


class _Handler(LoopbackHandler):
    """Answers requests in a provider's format."""

    server: BridgeServer
    once = KEYS

    def do_POST(self) -> None:
        """Answer a request for a reply, or for a token count."""
        self.respond(self._post)

    def do_GET(self) -> None:
        """Answer with a listing of models."""
        self.respond(self._get)

    def _post(self) -> LoopbackAnswer:
        return self.server.answers.post(self.path, self.body)

    def _get(self) -> LoopbackAnswer:
        return self.server.answers.listing(self.path, self._dialect())

    def check_request(self) -> None:
        """Raise WireError unless the request has the token in one of the headers that providers
        use.
        """
        self.check_bearer_or(*KEYS)

    def refusal_answer(self, refusal: WireRefusal) -> LoopbackAnswer:
        """Return a refusal in the provider's format."""
        return refusal_in(self._dialect(), refusal)

    def _dialect(self) -> Dialect:
        # Malformed requests have no path or headers.
        names = {name.lower() for name in getattr(self, "headers", ())}
        return dialect_of(getattr(self, "path", ""), names)
