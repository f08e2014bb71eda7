"""OpenAI's Batch API: a file of requests, a batch of it, and files of results and errors.

Sources: the API's reference (https://developers.openai.com/api/docs/guides/batch) and the types of
the `openai` package: a batch has at most 50,000 requests and 200 MB, ends within 24 hours, and costs
half. Its results are in any order. What has not begun when it expires is in the file of errors,
under `batch_expired`, and costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from ktdeval.calls import BatchResults, BatchState, BatchTag, Result, one_line
from ktdeval.errors import ModelError
from ktdeval.harness import ModelRequest
from ktdeval.values import dumps_compact
from ktdeval_models.remote.batch.common import (
    PAGE,
    AdapterBatches,
    ResultLine,
    count_of,
    is_older,
    requests_with_ids,
)

_KEY = "ktdeval"  # of a batch's metadata: its tag
_WINDOW = "24h"
_OVER = frozenset({"completed", "failed", "expired", "cancelled"})
_LATEST_S = 10**11  # a moment thousands of years from now, which a time still can express
_BOUNDARY = "ktdeval-batch-5e1f0c9b7a3d"


class OpenAIBatches(AdapterBatches):
    """Batches of OpenAI, over either of its two APIs."""

    def find(self, tag: BatchTag, others: Sequence[str]) -> str | None:
        """Return the batch whose metadata have the tag."""
        for batch in self.pages(self._page):
            created = min(count_of(batch.get("created_at")), _LATEST_S)
            if created and is_older(datetime.fromtimestamp(created, UTC), tag):
                return None  # the list has the newest first

            metadata = batch.get("metadata")
            if isinstance(metadata, Mapping) and metadata.get(_KEY) == tag.name:
                found = self.id_in(batch)
                if found not in others:
                    return found

        return None

    def _page(self, after: Any) -> tuple[list[Any], Any]:
        answer = self.get("/batches", limit=PAGE, after=after)
        batches = answer.get("data")
        if not isinstance(batches, list):
            raise self.unreadable("its list of batches has no 'data'", answer)

        last = batches[-1].get("id") if batches and isinstance(batches[-1], dict) else None
        return batches, last if answer.get("has_more") else None

    def submit(self, tag: BatchTag, requests: Sequence[ModelRequest]) -> str:
        """Upload the file of requests, then create the batch of it."""
        url = f"/v1{self.adapter.path}"
        lines = []
        for request_id, request in requests_with_ids(tag, requests):
            line: dict[str, Any] = {
                "custom_id": request_id,
                "method": "POST",
                "url": url,
                "body": self.adapter.encode(request),
            }
            lines.append(dumps_compact(line))

        uploaded = self.post_bytes(
            "/files",
            _form(tag.name, "\n".join(lines) + "\n"),
            f"multipart/form-data; boundary={_BOUNDARY}",
        )
        created = self.post(
            "/batches",
            {
                "input_file_id": self.id_in(uploaded),
                "endpoint": url,
                "completion_window": _WINDOW,
                "metadata": {_KEY: tag.name},
            },
        )
        return self.id_in(created)

    def state(self, batch: str) -> BatchState:
        """Return how far a batch is."""
        answer = self.get(f"/batches/{batch}")
        counts = answer.get("request_counts")
        done = 0
        if isinstance(counts, Mapping):
            done = count_of(counts.get("completed")) + count_of(counts.get("failed"))

        status = self.status_in(answer, "status")
        if status == "failed":
            return BatchState(done, is_over=True, problem=self._problem(answer))
        return BatchState(done, status in _OVER)

    def _problem(self, answer: Mapping[str, Any]) -> str:
        """Return why a batch was refused, in the provider's words."""
        match answer.get("errors"):
            case {"data": [dict(first), *_]}:
                words = one_line(str(first.get("message")), self.adapter.caller.secrets)
                line = first.get("line")
                return f"{words} (line {line})" if type(line) is int else words

        return "it does not say why"

    def results(self, batch: str, tag: BatchTag, requests: Sequence[ModelRequest]) -> BatchResults:
        """Return the results of both files."""
        answer = self.get(f"/batches/{batch}")
        left = self.expired if answer.get("status") == "expired" else self.cancelled
        lines: list[ResultLine | None] = []
        for name in ("output_file_id", "error_file_id"):
            if answer.get(name) is not None:
                file = self.id_in(answer, name)
                lines += self.lines(f"/files/{file}/content")

        found = self.gathered(tag, requests, lines, self._result)
        if answer.get("status") == "completed":
            return found

        results = {index: left() for index in range(len(requests))}
        return BatchResults({**results, **found.results}, found.foreign, found.unreadable)

    def _result(self, line: Mapping[str, Any], request: ModelRequest) -> Result:
        """Return what a line says of its request."""
        match line:
            case {"response": {"status_code": int(status), "body": body}}:
                return self.read(status, body, request)
            case {"error": {"code": "batch_expired"}}:
                return self.expired()
            case {"error": {"code": "batch_cancelled"}}:
                return self.cancelled()
            case {"error": dict(error)}:
                words = f"{error.get('code')}: {error.get('message')}"
                words = one_line(words, self.adapter.caller.secrets)
                who = f"{self.adapter.provider}/{self.adapter.name}"
                return ModelError("server", f"{who}: the request failed in the batch ({words})")

        raise self.unreadable("a result has neither a response nor an error")


def _form(name: str, content: str) -> bytes:
    """Return the body of an upload: a form of two fields, one of them a file."""
    disposition = "Content-Disposition: form-data; name"
    parts = (
        f'--{_BOUNDARY}\r\n{disposition}="purpose"\r\n\r\nbatch\r\n',
        f'--{_BOUNDARY}\r\n{disposition}="file"; filename="{name}.jsonl"\r\n',
        f"Content-Type: application/octet-stream\r\n\r\n{content}\r\n--{_BOUNDARY}--\r\n",
    )
    return "".join(parts).encode("utf-8", "surrogatepass")
