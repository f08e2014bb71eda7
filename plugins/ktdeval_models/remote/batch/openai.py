"""OpenAI's Batch API: a request file, a batch created from it, and files with results and errors.

Sources: the API reference (https://developers.openai.com/api/docs/guides/batch) and the types of
the `openai` package: a batch has at most 50,000 requests and 200 MB, ends within 24 hours, and
costs half. Results come in any order. Requests that have not started when the batch expires are
listed in the error file as `batch_expired`, and cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from ktdeval.calls import BatchTag, Result, one_line
from ktdeval.errors import ModelError
from ktdeval.harness import ModelRequest
from ktdeval.values import dumps_compact
from ktdeval_models.remote.batch.common import (
    AdapterBatches,
    ResultLine,
    count_of,
    requests_with_ids,
)
from ktdeval_models.remote.streams.assembly import object_or_empty

_KEY = "ktdeval"  # metadata field that holds a batch's tag
_WINDOW = "24h"
_LATEST_S = 10**11  # thousands of years from now, but still valid for datetime
_BOUNDARY = "ktdeval-batch-5e1f0c9b7a3d"


class OpenAIBatches(AdapterBatches):
    """Batches of OpenAI models, for either of OpenAI's two APIs."""

    path = "/batches"
    done_words = ("completed", "failed")
    over = ("completed",)

    def creation_time(self, batch: Mapping[str, Any]) -> datetime | None:
        """Return when a batch was created; None if unknown."""
        seconds = min(count_of(batch.get("created_at")), _LATEST_S)
        return datetime.fromtimestamp(seconds, UTC) if seconds else None

    def is_of(self, batch: Mapping[str, Any], tag: BatchTag) -> bool:
        """Return whether a batch carries a tag in its metadata."""
        return object_or_empty(batch.get("metadata")).get(_KEY) == tag.name

    def submit(self, tag: BatchTag, requests: Sequence[ModelRequest]) -> str:
        """Upload the request file, then create a batch from it."""
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

    def problem(self, answer: Mapping[str, Any]) -> str:
        """Return why a batch was refused, in the provider's words."""
        match answer.get("errors"):
            case {"data": [dict(first), *_]}:
                words = one_line(str(first.get("message")), self.adapter.caller.secrets)
                line = first.get("line")
                return f"{words} (line {line})" if type(line) is int else words

        return super().problem(answer)

    def result_lines(self, answer: Mapping[str, Any]) -> Iterable[ResultLine | None]:
        """Yield the results from both files."""
        for name in ("output_file_id", "error_file_id"):
            if answer.get(name) is not None:
                file = self.id_in(answer, name)
                yield from self.lines(f"/files/{file}/content")

    def result(self, line: Mapping[str, Any], request: ModelRequest) -> Result:
        """Return the result in a line."""
        match line:
            case {"response": {"status_code": int(status), "body": body}}:
                return self.read(status, body, request)
            case {"error": {"code": "batch_expired" | "batch_cancelled" as code}}:
                return self.left_out(code)
            case {"error": dict(error)}:
                words = f"{error.get('code')}: {error.get('message')}"
                words = one_line(words, self.adapter.caller.secrets)
                who = f"{self.adapter.provider}/{self.adapter.name}"
                return ModelError("server", f"{who}: the request failed in the batch ({words})")

        raise self.unreadable("a result has neither a response nor an error")


def _form(name: str, content: str) -> bytes:
    """Return the body of an upload: a form with two fields, the second of which is a file."""
    disposition = "Content-Disposition: form-data; name"
    parts = (
        f'--{_BOUNDARY}\r\n{disposition}="purpose"\r\n\r\nbatch\r\n',
        f'--{_BOUNDARY}\r\n{disposition}="file"; filename="{name}.jsonl"\r\n',
        f"Content-Type: application/octet-stream\r\n\r\n{content}\r\n--{_BOUNDARY}--\r\n",
    )
    return "".join(parts).encode("utf-8", "surrogatepass")
