"""Batch interfaces of the stub provider: files and batches of OpenAI, Message Batches of Anthropic,
and batch mode of the Gemini API, each in its vendor's published form.

with running_stub() as stub:
    stub.batches.plan = BatchPlan(fates={3: "server"})
    ... stub.batches.paid, stub.batches.created
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from aiohttp import web

from ktdeval.harness.chat_messages import Reply, ToolCall
from support.providers.stub_neutral import Answer, Asked, Refused, StubOptions

Fate = Literal[
    "answered", "bad_request", "server", "expired", "cancelled", "missing", "malformed", "twice",
    "twice_differs", "invalid",
]  # fmt: skip
"""What becomes of one request: `twice` has its result two times, `invalid` is a reply that submits
nothing valid.
"""
PAID = frozenset({"answered", "missing", "malformed", "twice", "twice_differs", "invalid"})
_DAY = timedelta(hours=24)


@dataclass
class BatchPlan:
    """What goes wrong with the batches that are created from now on."""

    fates: Mapping[int, Fate] = field(default_factory=dict)  # by place in the batch
    looks: int = 0  # how often a batch is still in progress when it is looked at
    strays: int = 0  # results of requests that nobody made
    is_expired: bool = False  # the batch as a whole ends by its time
    problem: str = ""  # why the whole batch is refused after it was created
    lost: int = 0  # so many created batches are told to nobody: the connection breaks
    refused: int = 0  # so many submissions are refused with 503, and nothing is created
    forbidden: int = 0  # so many are refused with 400
    lag: int = 0  # how many looks at the list show none of the newest batch


@dataclass
class Batch:
    """A batch, as it is kept."""

    id: str
    wire: str  # `openai`, `anthropic` or `google`
    created: datetime
    items: list[tuple[str, Any]]  # id and body of each request
    results: list[dict[str, Any]]
    errors: list[dict[str, Any]]  # of OpenAI, which keeps them apart
    plan: BatchPlan
    metadata: Mapping[str, Any] = field(default_factory=dict)
    endpoint: str = ""
    input_file: str = ""
    looks: int = 0  # so far

    @property
    def is_over(self) -> bool:
        return self.looks > self.plan.looks


class BatchDesk:
    """Batches of one stub. `created`: all, in order. `paid`: how often each request was answered, by
    digest: what a provider would have billed. `lists`: how often its batches were listed.
    """

    def __init__(self, options: StubOptions, reply: Callable[[Asked], Reply]) -> None:
        self.plan = BatchPlan()
        self.created: list[Batch] = []
        self.paid: Counter[str] = Counter()
        self.files: dict[str, bytes] = {}
        self.lists = 0
        self._options = options
        self._reply = reply

    @property
    def paid_twice(self) -> dict[str, int]:
        return {digest: times for digest, times in self.paid.items() if times > 1}

    def routes(self, wires: Mapping[str, Any]) -> list[web.RouteDef]:
        """The addresses of all three vendors."""
        self._wires = wires
        openai, anthropic, google = (
            self._guarded(wires[name]) for name in ("responses", "anthropic", "google")
        )
        folder = r"/{version:v1|v1beta}/batches"

        return [
            web.post("/v1/files", openai(self._upload)),
            web.get("/v1/files/{file}/content", openai(self._download)),
            web.post("/v1/batches", openai(self._openai_create)),
            web.get("/v1/batches", self._list_of_v1),
            web.get("/v1/batches/{batch}", self._get_of_v1),
            web.post("/v1/messages/batches", anthropic(self._anthropic_create)),
            web.get("/v1/messages/batches", anthropic(self._anthropic_list)),
            web.get("/v1/messages/batches/{batch}", anthropic(self._anthropic_get)),
            web.get("/v1/messages/batches/{batch}/results", anthropic(self._anthropic_results)),
            web.post(
                r"/{version:v1|v1beta}/models/{name}:batchGenerateContent",
                google(self._google_create),
            ),
            web.get(folder, google(self._google_list)),
            web.get(folder + "/{batch}", google(self._google_get)),
        ]

    def _guarded(self, wire: Any) -> Callable[[Any], Any]:
        """Answer only who has the key, and refuse in the wire's own words."""

        def guard(handle: Any) -> Any:
            async def answer(request: web.Request) -> web.StreamResponse:
                try:
                    if wire.key(request.headers) != self._options.key:
                        raise Refused("Incorrect API key provided.", "unauthorized", 401)

                    return await handle(request)  # type: ignore[no-any-return]
                except Refused as problem:
                    return web.json_response(wire.error(problem), status=problem.status)

            return answer

        return guard

    # -- what all have in common

    def _create(self, request: web.Request, batch: Batch) -> Batch:
        """Work a batch off at once, as far as its plan lets it; it is shown to be over later."""
        plan = batch.plan
        if plan.refused > 0:
            plan.refused -= 1
            raise Refused("The engine is currently overloaded.", "overloaded", 503)

        if plan.forbidden > 0:
            plan.forbidden -= 1
            raise Refused("This organisation has too many batches.")

        ids = [request_id for request_id, _ in batch.items]
        if len(set(ids)) != len(ids):
            raise Refused("custom_id: must be unique within a batch.")

        self.created.append(batch)
        if not plan.problem:
            for index, (request_id, body) in enumerate(batch.items):
                fate: Fate = plan.fates.get(index, "answered")
                self._work_off(batch, request_id, body, fate, request)

            for number in range(plan.strays):
                batch.results.append(self._line(batch, f"stranger-{number}", {"ok": True}))

        batch.results.reverse()  # in no order that anybody could rely on
        if plan.lost > 0:
            plan.lost -= 1
            assert request.transport is not None
            request.transport.abort()

        return batch

    def _work_off(
        self, batch: Batch, request_id: str, body: Any, fate: Fate, request: web.Request
    ) -> None:
        name = self._wire_of(batch)
        wire = self._wires[name]
        try:
            asked = wire.read(
                body, request.match_info.get("name", ""), self._options, request.headers
            )
        except Refused as problem:
            self._add_error(batch, request_id, problem)
            return

        if fate in PAID:
            self.paid[asked.digest] += 1

        reply = self._reply(asked)
        if fate == "invalid":
            tool = asked.forced or "nothing"
            reply = Reply(
                tool_calls=(ToolCall("call_1", tool, "{}"),),
                finish_reason="tool_calls",
                usage=reply.usage,
            )

        answer = wire.write(Answer(asked, reply))
        line = self._line(batch, request_id, answer)
        if fate == "bad_request":
            self._add_error(batch, request_id, Refused("Invalid 'input': too odd."))
        elif fate == "server":
            problem = Refused("The server had an error.", "server", 500)
            self._add_error(batch, request_id, problem)
        elif fate in ("expired", "cancelled"):
            self._add_left(batch, request_id, fate)
        elif fate == "malformed":
            batch.results.append({"broken": json.dumps(line)[:40]})
        elif fate != "missing":
            batch.results.append(line)
            if fate == "twice":
                batch.results.append(line)

            if fate == "twice_differs":
                other = wire.write(Answer(asked, Reply("Something else.", usage=reply.usage)))
                batch.results.append(self._line(batch, request_id, other))

    def _wire_of(self, batch: Batch) -> str:
        if batch.wire == "openai":
            return "chat" if "chat" in batch.endpoint else "responses"

        return batch.wire

    def _line(self, batch: Batch, request_id: str, answer: Any) -> dict[str, Any]:
        """One result, in the vendor's form."""
        if batch.wire == "openai":
            response = {"status_code": 200, "request_id": "req_stub", "body": answer}
            return {
                "id": f"batch_req_{request_id}",
                "custom_id": request_id,
                "response": response,
                "error": None,
            }

        if batch.wire == "anthropic":
            result = {"type": "succeeded", "message": answer}
            return {"custom_id": request_id, "result": result}

        return {"response": answer, "metadata": {"key": request_id}}

    def _add_error(self, batch: Batch, request_id: str, problem: Refused) -> None:
        body = self._wires[self._wire_of(batch)].error(problem)
        if batch.wire == "openai":
            response = {"status_code": problem.status, "request_id": "req_stub", "body": body}
            batch.errors.append(
                {
                    "id": f"batch_req_{request_id}",
                    "custom_id": request_id,
                    "response": response,
                    "error": None,
                }
            )
        elif batch.wire == "anthropic":
            result = {"type": "errored", "error": body}
            batch.results.append({"custom_id": request_id, "result": result})
        else:  # google.rpc.Status
            code = {400: 3, 500: 13}[problem.status]
            error = {"code": code, "message": problem.message}
            batch.results.append({"error": error, "metadata": {"key": request_id}})

    def _add_left(self, batch: Batch, request_id: str, fate: str) -> None:
        """A request that was never begun."""
        if batch.wire == "openai":
            error = {
                "code": f"batch_{fate}",
                "message": "This request could not be executed in time.",
            }
            batch.errors.append(
                {
                    "id": f"batch_req_{request_id}",
                    "custom_id": request_id,
                    "response": None,
                    "error": error,
                }
            )
        elif batch.wire == "anthropic":
            kind = {"expired": "expired", "cancelled": "canceled"}[fate]
            batch.results.append({"custom_id": request_id, "result": {"type": kind}})
        elif not batch.plan.is_expired:  # Gemini has no results of a batch that expired
            error = {"code": 1, "message": "The request was cancelled."}
            batch.results.append({"error": error, "metadata": {"key": request_id}})

    def _find(self, request: web.Request) -> Batch:
        for batch in self.created:
            if batch.id == request.match_info["batch"]:
                return batch

        raise Refused("No such batch.", "unknown_path", 404)

    def _newest_first(self, wire: str) -> list[Batch]:
        self.lists += 1
        found = [batch for batch in self.created if batch.wire == wire]
        if found and found[-1].plan.lag > 0:
            found[-1].plan.lag -= 1
            found.pop()

        return found[::-1]

    def _new(self, wire: str, items: list[tuple[str, Any]], **more: Any) -> Batch:
        number = len(self.created) + 1
        prefix = {"openai": "batch_", "anthropic": "msgbatch_", "google": ""}[wire]
        return Batch(
            f"{prefix}stub{number}", wire, datetime.now(UTC), items, [], [], self.plan, **more
        )

    # -- OpenAI

    async def _upload(self, request: web.Request) -> web.StreamResponse:
        fields = {}
        async for part in await request.multipart():
            fields[part.name] = (part.filename, bytes(await part.read()))  # type: ignore[union-attr]

        if fields["purpose"][1] != b"batch":
            raise Refused("Invalid purpose.", param="purpose")

        name, content = fields["file"]
        if not str(name).endswith(".jsonl"):
            raise Refused("Invalid file format for Batch API. Must be .jsonl", param="file")

        file = f"file-stub{len(self.files) + 1}"
        self.files[file] = content

        return web.json_response(
            {
                "id": file,
                "object": "file",
                "bytes": len(content),
                "created_at": _seconds(datetime.now(UTC)),
                "filename": name,
                "purpose": "batch",
                "status": "processed",
            }
        )

    async def _download(self, request: web.Request) -> web.StreamResponse:
        file = request.match_info["file"]
        if file not in self.files:
            raise Refused("No such File object.", "unknown_path", 404)

        return web.Response(body=self.files[file], content_type="application/octet-stream")

    async def _openai_create(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        if body["completion_window"] != "24h":
            raise Refused("Invalid completion_window.", param="completion_window")

        items = []
        for line in self.files[body["input_file_id"]].decode().splitlines():
            item = json.loads(line)
            if (item["method"], item["url"]) != ("POST", body["endpoint"]):
                raise Refused("The URL of a request does not match the batch's endpoint.")

            items.append((item["custom_id"], item["body"]))

        batch = self._new(
            "openai",
            items,
            metadata=body.get("metadata", {}),
            endpoint=body["endpoint"],
            input_file=body["input_file_id"],
        )

        return web.json_response(self._openai_batch(self._create(request, batch)))

    def _openai_batch(self, batch: Batch) -> dict[str, Any]:
        status = "in_progress"
        files: dict[str, Any] = {"output_file_id": None, "error_file_id": None}
        counts = {"total": len(batch.items), "completed": 0, "failed": 0}
        errors = None

        if batch.is_over and batch.plan.problem:
            status = "failed"
            error = {"code": "invalid", "message": batch.plan.problem, "param": None, "line": 2}
            errors = {"object": "list", "data": [error]}
        elif batch.is_over:
            status = "expired" if batch.plan.is_expired else "completed"
            counts |= {"completed": len(batch.results), "failed": len(batch.errors)}
            for name, lines in (("output", batch.results), ("error", batch.errors)):
                if lines:
                    file = f"file-{batch.id}-{name}"
                    self.files[file] = _json_lines(lines)
                    files[f"{name}_file_id"] = file

        return {
            "id": batch.id,
            "object": "batch",
            "endpoint": batch.endpoint,
            "errors": errors,
            "input_file_id": batch.input_file,
            "completion_window": "24h",
            "status": status,
            **files,
            "created_at": _seconds(batch.created),
            "expires_at": _seconds(batch.created + _DAY),
            "request_counts": counts,
            "metadata": dict(batch.metadata),
        }

    async def _list_of_v1(self, request: web.Request) -> web.StreamResponse:
        """`/v1/batches` is OpenAI's, and Gemini's in its older version: the key's header tells."""
        if "x-goog-api-key" in request.headers:
            return await self._guarded(self._wires["google"])(self._google_list)(request)  # type: ignore[no-any-return]

        return await self._guarded(self._wires["responses"])(self._openai_list)(request)  # type: ignore[no-any-return]

    async def _get_of_v1(self, request: web.Request) -> web.StreamResponse:
        if "x-goog-api-key" in request.headers:
            return await self._guarded(self._wires["google"])(self._google_get)(request)  # type: ignore[no-any-return]

        return await self._guarded(self._wires["responses"])(self._openai_get)(request)  # type: ignore[no-any-return]

    async def _openai_list(self, request: web.Request) -> web.StreamResponse:
        batches = [self._openai_batch(batch) for batch in self._newest_first("openai")]
        page, has_more = _page(batches, "id", request.query.get("after"), 1)
        answer = {"object": "list", "data": page, "has_more": has_more}
        return web.json_response(answer)

    async def _openai_get(self, request: web.Request) -> web.StreamResponse:
        batch = self._find(request)
        batch.looks += 1
        return web.json_response(self._openai_batch(batch))

    # -- Anthropic

    async def _anthropic_create(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        if set(body) != {"requests"} or any(
            set(item) != {"custom_id", "params"} for item in body["requests"]
        ):
            raise Refused("requests: Extra inputs are not permitted")

        items = [(item["custom_id"], item["params"]) for item in body["requests"]]
        batch = self._create(request, self._new("anthropic", items))

        return web.json_response(self._anthropic_batch(batch, request))

    def _anthropic_batch(self, batch: Batch, request: web.Request) -> dict[str, Any]:
        counts = Counter({"processing": len(batch.items)})
        if batch.is_over:
            counts = Counter(line["result"]["type"] for line in batch.results if "result" in line)
            counts["succeeded"] += len(batch.items) + batch.plan.strays - counts.total()
            counts["succeeded"] -= batch.plan.strays

        results = f"{request.url.origin()}/v1/messages/batches/{batch.id}/results"

        return {
            "id": batch.id,
            "type": "message_batch",
            "processing_status": "ended" if batch.is_over else "in_progress",
            "request_counts": {
                name: counts[name]
                for name in ("processing", "succeeded", "errored", "canceled", "expired")
            },
            "created_at": batch.created.isoformat(),
            "expires_at": (batch.created + _DAY).isoformat(),
            "ended_at": batch.created.isoformat() if batch.is_over else None,
            "archived_at": None,
            "cancel_initiated_at": None,
            "results_url": results if batch.is_over else None,
        }

    async def _anthropic_list(self, request: web.Request) -> web.StreamResponse:
        batches = [
            self._anthropic_batch(batch, request) for batch in self._newest_first("anthropic")
        ]
        page, has_more = _page(batches, "id", request.query.get("after_id"), 1)
        return web.json_response(
            {
                "data": page,
                "has_more": has_more,
                "first_id": page[0]["id"] if page else None,
                "last_id": page[-1]["id"] if page else None,
            }
        )

    async def _anthropic_get(self, request: web.Request) -> web.StreamResponse:
        batch = self._find(request)
        batch.looks += 1
        return web.json_response(self._anthropic_batch(batch, request))

    async def _anthropic_results(self, request: web.Request) -> web.StreamResponse:
        batch = self._find(request)
        if not batch.is_over:
            raise Refused("The batch has not ended.", "unknown_path", 404)

        return web.Response(body=_json_lines(batch.results), content_type="application/x-jsonl")

    # -- Google

    async def _google_create(self, request: web.Request) -> web.StreamResponse:
        body = (await request.json())["batch"]
        if not body.get("displayName"):
            raise Refused("batch.display_name: is required.")

        items = [
            (item["metadata"]["key"], item["request"])
            for item in body["inputConfig"]["requests"]["requests"]
        ]
        metadata = {"displayName": body["displayName"], "model": request.match_info["name"]}
        batch = self._create(request, self._new("google", items, metadata=metadata))

        return web.json_response(self._google_batch(batch))

    def _google_batch(self, batch: Batch) -> dict[str, Any]:
        state = "RUNNING"
        operation: dict[str, Any] = {"name": f"batches/{batch.id}"}
        failed = sum("error" in line for line in batch.results)
        stats = {"requestCount": str(len(batch.items))}
        output: dict[str, Any] = {}

        if batch.is_over and batch.plan.problem:
            state = "FAILED"
            operation |= {"done": True, "error": {"code": 3, "message": batch.plan.problem}}
        elif batch.is_over and batch.plan.is_expired:
            state = "EXPIRED"
            operation["done"] = True
        elif batch.is_over:
            state = "SUCCEEDED"
            stats["successfulRequestCount"] = str(len(batch.results) - failed)
            stats["failedRequestCount"] = str(failed)
            output = {"inlinedResponses": {"inlinedResponses": batch.results}}
            operation |= {"done": True, "response": {"@type": "type/Output", **output}}

        metadata = {
            "@type": "type/GenerateContentBatch",
            "model": f"models/{batch.metadata['model']}",
            "displayName": batch.metadata["displayName"],
            "name": f"batches/{batch.id}",
            "state": f"BATCH_STATE_{state}",
            "createTime": batch.created.isoformat(),
            "updateTime": batch.created.isoformat(),
            "batchStats": stats,
        }

        if output:
            metadata["output"] = output

        return {**operation, "metadata": metadata}

    async def _google_list(self, request: web.Request) -> web.StreamResponse:
        batches = [self._google_batch(batch) for batch in self._newest_first("google")]
        page, has_more = _page(batches, "name", request.query.get("pageToken"), 1)
        answer = {"operations": page} if page else {}  # the API leaves out what is empty

        if has_more:
            answer["nextPageToken"] = page[-1]["name"]

        return web.json_response(answer)

    async def _google_get(self, request: web.Request) -> web.StreamResponse:
        batch = self._find(request)
        batch.looks += 1
        return web.json_response(self._google_batch(batch))


def _seconds(moment: datetime) -> int:
    return int(moment.timestamp())


def _json_lines(lines: list[dict[str, Any]]) -> bytes:
    """Lines of results; a broken one breaks off."""
    texts = [line.get("broken") or json.dumps(line) for line in lines]
    return "".join(f"{text}\n" for text in texts).encode()


def _page(
    batches: list[dict[str, Any]], name: str, after: str | None, size: int
) -> tuple[list[dict[str, Any]], bool]:
    """One page of a list, so small that there are several."""
    first = 0
    if after is not None:
        first = 1 + [batch[name] for batch in batches].index(after)

    return batches[first : first + size], first + size < len(batches)
