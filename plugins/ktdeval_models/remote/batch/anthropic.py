"""Anthropic's Message Batches.

Sources: https://platform.claude.com/docs/en/build-with-claude/batch-processing and the types of the
`anthropic` package: a batch has at most 100,000 requests and 256 MB, ends within 24 hours, and costs
half, prompt caching included. Results are in any order and stay for 29 days. What fails, is cancelled
or expires costs nothing. A batch takes no tag: it is found by time and size, and known by the ids of
its requests, which its results show.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from ktdeval.calls import BatchResults, BatchState, BatchTag, Result, code_status
from ktdeval.harness import ModelRequest
from ktdeval_models.remote.batch.common import (
    PAGE,
    AdapterBatches,
    count_of,
    is_older,
    requests_with_ids,
)

_PATH = "/v1/messages/batches"
_COUNTS = ("processing", "succeeded", "errored", "canceled", "expired")


class AnthropicBatches(AdapterBatches):
    """Batches of Claude models."""

    def find(self, tag: BatchTag, others: Sequence[str]) -> str | None:
        """Return a batch of the tag's size: of those since its time, the oldest."""
        oldest = None
        for batch in self.pages(self._page):
            created = _utc_moment(batch.get("created_at"))
            if created is None:
                continue
            if is_older(created, tag):
                break  # the list has the newest first

            found = self.id_in(batch)
            if found not in others and sum(_request_counts(batch).values()) == tag.requests:
                oldest = found

        return oldest

    def _page(self, after: Any) -> tuple[list[Any], Any]:
        answer = self.get(_PATH, limit=PAGE, after_id=after)
        batches = answer.get("data")
        if not isinstance(batches, list):
            raise self.unreadable("its list of batches has no 'data'", answer)
        return batches, answer.get("last_id") if answer.get("has_more") else None

    def submit(self, tag: BatchTag, requests: Sequence[ModelRequest]) -> str:
        """Create the batch."""
        items = [
            {"custom_id": request_id, "params": self.adapter.encode(request)}
            for request_id, request in requests_with_ids(tag, requests)
        ]
        return self.id_in(self.post(_PATH, {"requests": items}))

    def state(self, batch: str) -> BatchState:
        """Return how far a batch is. Its requests are counted when all have ended."""
        answer = self.get(f"{_PATH}/{batch}")
        counts = _request_counts(answer)
        done = sum(counts.values()) - counts["processing"]
        return BatchState(done, self.status_in(answer, "processing_status") == "ended")

    def results(self, batch: str, tag: BatchTag, requests: Sequence[ModelRequest]) -> BatchResults:
        """Return the results. They are taken from this endpoint, whatever address it names."""
        lines = self.lines(f"{_PATH}/{batch}/results")
        return self.gathered(tag, requests, lines, self._result)

    def _result(self, line: Mapping[str, Any], request: ModelRequest) -> Result:
        """Return what a line says of its request."""
        match line.get("result"):
            case {"type": "succeeded", "message": message}:
                return self.read(200, message, request)
            case {"type": "errored", "error": {"error": {"type": str(kind)}} as refusal}:
                return self.read(code_status(kind) or 500, refusal, request)
            case {"type": "canceled"}:
                return self.cancelled()
            case {"type": "expired"}:
                return self.expired()

        raise self.unreadable("a result is of no type that is known")


def _request_counts(batch: Mapping[str, Any]) -> dict[str, int]:
    counts = batch.get("request_counts")
    if not isinstance(counts, Mapping):
        counts = {}
    return {name: count_of(counts.get(name)) for name in _COUNTS}


def _utc_moment(text: Any) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
