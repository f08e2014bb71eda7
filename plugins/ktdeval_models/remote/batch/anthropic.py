"""Anthropic's Message Batches.

Sources: https://platform.claude.com/docs/en/build-with-claude/batch-processing and the types of the
`anthropic` package: a batch has at most 100,000 requests and 256 MB, ends within 24 hours, and
costs half, including prompt caching. Results come in any order and are kept for 29 days. Requests
that fail, are cancelled or expire cost nothing. A batch can't carry a tag, so it is found by time
and size, and confirmed by the request ids in its results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from ktdeval.calls import BatchResults, BatchTag, Result, code_status
from ktdeval.harness import ModelRequest
from ktdeval_models.remote.batch.common import (
    AdapterBatches,
    requests_with_ids,
)


class AnthropicBatches(AdapterBatches):
    """Batches of Claude models."""

    path = "/v1/messages/batches"
    takes_tag = False
    list_words = ("data", "limit", "after_id")
    status_word = "processing_status"
    # updated only when all requests have ended
    done_words = ("succeeded", "errored", "canceled", "expired")
    over = ("ended",)

    def creation_time(self, batch: Mapping[str, Any]) -> datetime | None:
        """Return the creation time of a batch; None if unreadable."""
        try:
            moment = datetime.fromisoformat(batch["created_at"])
        except (LookupError, TypeError, ValueError):
            return None
        return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)

    def is_of(self, batch: Mapping[str, Any], tag: BatchTag) -> bool:
        """Return whether a batch has the size given by a tag, and has a creation time."""
        is_dated = self.creation_time(batch) is not None
        return is_dated and self.count(batch, ("processing", *self.done_words)) == tag.requests

    def submit(self, tag: BatchTag, requests: Sequence[ModelRequest]) -> str:
        """Create the batch."""
        items = [
            {"custom_id": request_id, "params": self.adapter.encode(request)}
            for request_id, request in requests_with_ids(tag, requests)
        ]
        return self.id_in(self.post(self.path, {"requests": items}))

    def results(self, batch: str, tag: BatchTag, requests: Sequence[ModelRequest]) -> BatchResults:
        """Return the results. They are always read from this endpoint, whatever address the batch
        contains.
        """
        lines = self.lines(f"{self.path}/{batch}/results")
        return self.match_results(tag, requests, lines)

    def result(self, line: Mapping[str, Any], request: ModelRequest) -> Result:
        """Return the result in a line."""
        match line.get("result"):
            case {"type": "succeeded", "message": message}:
                return self.read(200, message, request)
            case {"type": "errored", "error": {"error": {"type": str(kind)}} as refusal}:
                return self.read(code_status(kind) or 500, refusal, request)
            case {"type": "canceled" | "expired" as kind}:
                return self.left_out(kind)

        raise self.unreadable("a result is of no type that is known")
