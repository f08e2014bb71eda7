"""A provider of models on loopback: a real HTTP server that speaks four wire formats, decides
without a key, and fails on schedule.

with running_stub(plan=FaultPlan(faults=("server",), every=3)) as stub:
    ... stub.base_url, stub.requests, stub.answered, stub.counts
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import formatdate
from functools import partial
from importlib import metadata
from typing import Any

import pytest
from aiohttp import web

from ktdeval.harness.chat_messages import Reply
from ktdeval_models.builtin_models import make_builtin
from support.providers.protocol_speaker import write_out
from support.providers.stub_anthropic import AnthropicWire
from support.providers.stub_batches import BatchDesk
from support.providers.stub_clouds import ROUTES
from support.providers.stub_faults import BENT, REFUSALS, FaultPlan, bend, problem_of, wrong_shape
from support.providers.stub_google import GoogleWire
from support.providers.stub_hostile import HOSTILE, ODD, Spoilt
from support.providers.stub_neutral import KEY, Answer, Asked, Refused, StubOptions, decide
from support.providers.stub_openai import ChatWire, ResponsesWire
from support.providers.stub_streams import stream_of

__all__ = ["KEY", "FaultPlan", "Seen", "Stub", "StubOptions", "running_stub", "skip_without_sdks"]

_JSON = "application/json"
_DRIP_S = 0.02
_LONGEST_S = 240.0


@dataclass
class Seen:
    """One request that reached the stub."""

    number: int  # in order of arrival, from 1
    wire: str  # `chat`, `responses`, `anthropic`, `google`, or one of `stub_clouds`
    body: Any  # what was sent
    # hash of its content, the same on all wires; empty where it was refused before it was read
    digest: str = ""
    attempt: int = 0  # how many requests of this content there were, this one included
    #: `answered`, the name of the fault, or `status` and kind of a refusal; `open` while it is
    #: worked on, `lost` when the client had gone before the answer was out
    outcome: str = "open"
    is_answered: bool = False  # whether it got a whole answer, which a provider would have billed


class Gone(Exception):
    """The connection was spoilt on schedule: there is nobody left to answer."""


class Stub:
    """A running stub provider. What it counts may be read from any thread. `port`: where it
    listens. `options`: how it behaves. `plan`: what goes wrong when; may be replaced while it runs.
    `mood`: in another one, questions without tools are answered in another way; may be replaced
    while it runs. `requests`: every request, in order of arrival. `answered`: how often each
    content was answered in whole, by digest: what a provider would have billed. `counts`: requests
    by outcome. `held`: how many requests wait for `go_on`. `max_at_once`: the most requests it
    ever worked on at the same time. `batches`: its batch interfaces.
    """

    def __init__(self, options: StubOptions, plan: FaultPlan | None) -> None:
        self.options = options
        self.plan = plan or FaultPlan()
        self.mood = ""
        self.port = 0
        self.requests: list[Seen] = []
        self.answered: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        self.held = 0
        self.max_at_once = 0
        self._at_once = 0
        self._asked: Counter[str] = Counter()
        self._model = make_builtin(options.model)
        self._holding = options.hold_after == 0
        self._may_hold = options.hold_after is not None
        self._wires = (ChatWire(), ResponsesWire(), AnthropicWire(), GoogleWire())
        self.batches = BatchDesk(options, lambda asked: self._reply(asked, None))

    @property
    def address(self) -> str:
        """Scheme, host and port: the base URL of the Anthropic and Google wires."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def base_url(self) -> str:
        return f"{self.address}/v1"

    def base_url_of(self, wire: str) -> str:
        return self.base_url if wire in ("chat", "responses") else self.address

    @property
    def answers(self) -> int:
        return sum(self.answered.values())

    @property
    def answered_twice(self) -> dict[str, int]:
        return {digest: times for digest, times in self.answered.items() if times > 1}

    def go_on(self) -> None:
        self._may_hold = self._holding = False

    def application(self) -> web.Application:
        app = web.Application(client_max_size=1 << 26)
        chat, responses, anthropic, google = self._wires
        app.router.add_post("/v1/chat/completions", partial(self._serve, chat))
        app.router.add_post("/v1/responses", partial(self._serve, responses))
        app.router.add_post("/v1/messages", partial(self._serve, anthropic))
        app.router.add_post(
            r"/{version:v1|v1beta}/models/{name}:generateContent", partial(self._serve, google)
        )
        app.router.add_routes(self.batches.routes({wire.name: wire for wire in self._wires}))

        for path, wire in ROUTES.items():
            app.router.add_post(path, partial(self._serve, wire()))

        app.router.add_route("*", "/{rest:.*}", self._unknown)

        return app

    async def _unknown(self, request: web.Request) -> web.Response:
        problem = Refused(f"Invalid URL ({request.method} {request.path})", "unknown_path", 404)
        if request.method == "POST":  # a look-up costs nothing
            self.counts["404 unknown_path"] += 1

        return web.json_response(self._wires[0].error(problem), status=404)

    # -- one request
    # -------------------------------------------------------------------------------------------------

    async def _serve(self, wire: Any, request: web.Request) -> web.StreamResponse:
        self._at_once += 1
        self.max_at_once = max(self.max_at_once, self._at_once)
        seen = Seen(len(self.requests) + 1, wire.name, None)
        self.requests.append(seen)

        try:
            return await self._answer(wire, request, seen)
        except Refused as problem:
            self._note(seen, f"{problem.status} {problem.kind}")
            return await self._refuse(wire, request, problem)
        except Gone:
            return web.Response()  # to nobody
        except (ConnectionError, asyncio.CancelledError):
            if seen.outcome == "open":
                self._note(seen, "lost")
            elif seen.is_answered:
                self.answered[seen.digest] -= 1
                seen.is_answered = False
                self.counts[seen.outcome] -= 1
                self._note(seen, "lost")

            return web.Response()
        finally:
            self._at_once -= 1

    def _note(self, seen: Seen, outcome: str, is_answered: bool = False) -> None:
        """Count an outcome; before its last byte is out, so that whoever has the answer finds it
        counted.
        """
        seen.outcome = outcome
        seen.is_answered = is_answered
        self.counts[outcome] += 1

        if is_answered:
            self.answered[seen.digest] += 1
            if (
                self._may_hold
                and self.options.hold_after is not None
                and self.answers >= self.options.hold_after
            ):
                self._holding = True

    async def _answer(self, wire: Any, request: web.Request, seen: Seen) -> web.StreamResponse:
        body = await _body(request)
        seen.body = body
        key = wire.key(request.headers)

        if key != self.options.key:
            raise Refused(f"Incorrect API key provided: {key}.", "unauthorized", 401)

        asked = wire.read(body, request.match_info.get("name", ""), self.options, request.headers)
        self._asked[asked.digest] += 1
        seen.digest, seen.attempt = asked.digest, self._asked[asked.digest]
        fault = self.plan.choose(seen.number, asked)
        await self._wait(request)

        if fault is not None and fault in REFUSALS:
            self._note(seen, fault)
            return await self._refuse(wire, request, problem_of(fault, key), fault)

        if fault is not None and fault not in BENT:
            self._note(seen, fault)
            return await self._break(fault, wire, request, asked)

        payload = _encode(wire.write(Answer(asked, self._reply(asked, fault))))
        if self.plan.spoil is not None:
            return await _spoil(request, self.plan.spoil(payload))

        if request.transport is None or request.transport.is_closing():
            raise ConnectionResetError("the client has gone")

        self._note(seen, fault or "answered", is_answered=True)
        if self.options.streams and wire.name == "chat" and body.get("stream"):
            events = {"Content-Type": "text/event-stream"}
            return await _send(request, 200, stream_of(json.loads(payload)), events)

        return await _send(request, 200, payload)

    def _reply(self, asked: Asked, fault: str | None) -> Reply:
        reply = decide(self._model, asked, self.options.reasoning, self.mood)
        return write_out(reply if fault is None else bend(fault, reply, asked), asked.form)

    async def _wait(self, request: web.Request) -> None:
        """Think for a while; and as long as the stub is held."""
        if self.options.latency_s:
            await asyncio.sleep(self.options.latency_s)

        if not self._holding:
            return

        self.held += 1
        try:
            while self._holding:
                if request.transport is None or request.transport.is_closing():
                    raise ConnectionResetError("the client has gone")

                await asyncio.sleep(_DRIP_S)
        finally:
            self.held -= 1

    async def _refuse(
        self, wire: Any, request: web.Request, problem: Refused, fault: str = ""
    ) -> web.StreamResponse:
        headers = {}
        if (after := self.plan.retry_after_s) is not None and problem.kind in (
            "rate_limited",
            "overloaded",
        ):
            headers["Retry-After"] = (
                formatdate(time.time() + after, usegmt=True)
                if fault.endswith("_date")
                else f"{after:g}"
            )

        return await _send(request, problem.status, _encode(wire.error(problem)), headers)

    async def _break(
        self, fault: str, wire: Any, request: web.Request, asked: Asked
    ) -> web.StreamResponse:
        payload = _encode(wire.write(Answer(asked, self._reply(asked, None))))
        if fault in HOSTILE or fault in ODD:
            return await _spoil(
                request, (ODD[fault].make if fault in ODD else HOSTILE[fault][1])(payload)
            )

        # what can't be read gives the key away
        half = payload[: len(payload) // 2]
        key = self.options.key
        if fault == "reset":
            _reset(request)
            raise Gone

        if fault == "silent":
            await _until_gone(request)

        if fault == "malformed":
            return await _send(request, 200, half + key.encode())

        if fault == "wrong_shape":
            return await _send(request, 200, _encode(wrong_shape(wire.name, key)))

        if fault == "error_200":
            return await _send(request, 200, _encode(wire.error(problem_of("server", key))))

        if fault == "html":
            return await _send(
                request,
                200,
                f"<html><body>Welcome, {key}</body></html>".encode(),
                {"Content-Type": "text/html"},
            )

        if fault == "empty_body":
            return await _send(request, 200, b"")

        response = web.StreamResponse(headers={"Content-Type": _JSON})
        if fault == "cut_chunked":
            response.enable_chunked_encoding()
        else:
            response.content_length = len(payload)

        await response.prepare(request)
        if fault == "slow":
            await _drip(request, response, payload)

        await response.write(half)
        await asyncio.sleep(_DRIP_S)  # so that the half is on its way before the end
        if fault == "reset_body":
            _reset(request)
        elif request.transport is not None:
            request.transport.close()

        raise Gone


async def _body(request: web.Request) -> Any:
    try:
        return json.loads(await request.read())
    except ValueError as error:
        raise Refused(f"We could not parse the JSON body of your request: {error}") from error


async def _send(
    request: web.Request, status: int, payload: bytes, headers: dict[str, str] | None = None
) -> web.StreamResponse:
    response = web.StreamResponse(
        status=status,
        headers={"Content-Type": _JSON, "x-request-id": "req_stub", **(headers or {})},
    )
    response.content_length = len(payload)
    await response.prepare(request)
    await response.write(payload)
    await response.write_eof()

    return response


async def _spoil(request: web.Request, answer: Spoilt) -> web.StreamResponse:
    """Send an answer as it is; raw bytes end with the connection."""
    if answer.raw is None:
        return await _send(request, answer.status, answer.body, dict(answer.headers))

    if request.transport is not None:
        request.transport.write(answer.raw)
        request.transport.close()

    raise Gone


async def _drip(request: web.Request, response: web.StreamResponse, payload: bytes) -> None:
    """Byte by byte, so that no single wait is long and the whole takes for ever."""
    until = time.monotonic() + _LONGEST_S
    for index in range(len(payload) - 1):
        await response.write(payload[index : index + 1])
        await asyncio.sleep(_DRIP_S)
        if time.monotonic() > until or request.transport is None or request.transport.is_closing():
            break

    raise Gone


async def _until_gone(request: web.Request) -> None:
    until = time.monotonic() + _LONGEST_S
    while (
        time.monotonic() < until
        and request.transport is not None
        and not request.transport.is_closing()
    ):
        await asyncio.sleep(_DRIP_S)

    raise Gone


def _reset(request: web.Request) -> None:
    if request.transport is None:
        return

    plug = request.transport.get_extra_info("socket")
    plug.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    request.transport.abort()


def _encode(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False).encode()


def skip_without_sdks() -> None:
    """Skip a module of tests where the SDK of a provider is not installed. They are not imported
    for that: it takes seconds.
    """
    for distribution in ("openai", "anthropic", "google-genai"):
        try:
            metadata.distribution(distribution)
        except metadata.PackageNotFoundError:
            pytest.skip(f"needs the package {distribution}", allow_module_level=True)


# -- running it
# ------------------------------------------------------------------------------------------------------


@contextmanager
def running_stub(plan: FaultPlan | None = None, port: int = 0, **options: Any) -> Iterator[Stub]:
    """A stub provider in a thread of its own; `options` as `StubOptions` has them."""
    stub = Stub(StubOptions(**options), plan)
    loop = asyncio.new_event_loop()
    started = threading.Event()
    thread = threading.Thread(
        target=_run, args=(loop, stub, port, started), daemon=True, name="stub-provider"
    )
    thread.start()

    assert started.wait(240), "the stub does not start"
    assert stub.port, "the stub has no port"

    try:
        yield stub
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


def _run(loop: asyncio.AbstractEventLoop, stub: Stub, port: int, started: threading.Event) -> None:
    asyncio.set_event_loop(loop)
    runner = web.AppRunner(
        stub.application(), access_log=None, handler_cancellation=True, shutdown_timeout=0.1
    )

    try:
        loop.run_until_complete(_start(runner, stub, port))
    finally:
        started.set()

    loop.run_forever()
    loop.run_until_complete(runner.cleanup())
    loop.close()


async def _start(runner: web.AppRunner, stub: Stub, port: int) -> None:
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port, backlog=1024)
    await site.start()
    stub.port = runner.addresses[0][1]
