"""Batch mode of the Gemini API.

Sources: https://ai.google.dev/api/batch-api, https://ai.google.dev/gemini-api/docs/batch-api and the
types of the `google-genai` package: requests in the batch itself take up to 20 MB, a batch costs half
of all but reads of the prompt cache, and is to end within 24 hours. One that has not ended after 48
has no results. Its display name is the tag.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ktdeval.calls import BatchResults, BatchState, BatchTag, Price, Result, one_line
from ktdeval.harness import ModelRequest
from ktdeval_models.remote.batch.common import (
    PAGE,
    AdapterBatches,
    ResultLine,
    count_of,
    requests_with_ids,
)

if TYPE_CHECKING:
    from ktdeval_models.remote.base import RemoteAdapter

_FOLDER = "batches/"
_STATES = ("BATCH_STATE_", "JOB_STATE_")  # older answers have the second
_OVER = frozenset({"SUCCEEDED", "FAILED", "CANCELLED", "EXPIRED", "PARTIALLY_SUCCEEDED"})

#: HTTP statuses of the codes of `google.rpc.Code`
_HTTP = {
    3: 400, 4: 504, 5: 404, 6: 409, 7: 403, 8: 429, 9: 400, 10: 409, 11: 400, 12: 501, 13: 500,
    14: 503, 15: 500, 16: 401,
}  # fmt: skip
_CANCELLED = 1


class GoogleBatches(AdapterBatches):
    """Batches of Gemini models."""

    max_bytes = 16 << 20

    def __init__(self, adapter: RemoteAdapter, api_version: str) -> None:
        super().__init__(adapter)
        self._root = f"/{api_version}"

    def price(self, ordinary: Price) -> Price:
        """Return the price in a batch: half, but reading the prompt cache costs as ever."""
        return ordinary.in_batch(halves_cache_reads=False)

    def find(self, tag: BatchTag, others: Sequence[str]) -> str | None:
        """Return the batch whose display name is the tag."""
        for batch in self.pages(self._page):
            metadata = _metadata(batch)
            if metadata.get("displayName") == tag.name:
                found = self._id_of(batch)
                if found not in others:
                    return found

        return None

    def _page(self, token: Any) -> tuple[list[Any], Any]:
        answer = self.get(f"{self._root}/batches", pageSize=PAGE, pageToken=token)
        batches = answer.get("operations", [])
        if not isinstance(batches, list):
            raise self.unreadable("its list of batches has no 'operations'", answer)
        return batches, answer.get("nextPageToken") or None

    def submit(self, tag: BatchTag, requests: Sequence[ModelRequest]) -> str:
        """Create the batch, with the requests in it."""
        items = [
            {"request": self.adapter.encode(request), "metadata": {"key": request_id}}
            for request_id, request in requests_with_ids(tag, requests)
        ]
        batch = {"displayName": tag.name, "inputConfig": {"requests": {"requests": items}}}
        path = self.adapter.path.replace(":generateContent", ":batchGenerateContent")
        return self._id_of(self.post(path, {"batch": batch}))

    def _id_of(self, batch: Mapping[str, Any]) -> str:
        name = batch.get("name")
        if isinstance(name, str):
            batch = {**batch, "name": name.removeprefix(_FOLDER)}
        return self.id_in(batch, "name")

    def _batch(self, batch: str) -> dict[str, Any]:
        answer = self.get(f"{self._root}/{_FOLDER}{batch}")
        if not isinstance(_metadata(answer).get("state"), str):
            raise self.unreadable("it gives no 'state' of a batch", answer)
        return answer

    def state(self, batch: str) -> BatchState:
        """Return how far a batch is."""
        answer = self._batch(batch)
        metadata = _metadata(answer)
        stats = metadata.get("batchStats")
        done = 0
        if isinstance(stats, Mapping):
            done = count_of(stats.get("successfulRequestCount"))
            done += count_of(stats.get("failedRequestCount"))

        state = _batch_state(metadata)
        if state == "FAILED":
            return BatchState(done, is_over=True, problem=self._problem(answer))
        return BatchState(done, state in _OVER)

    def _problem(self, answer: Mapping[str, Any]) -> str:
        """Return why a batch failed, in the provider's words."""
        match answer.get("error"):
            case {"message": str(message)}:
                return one_line(message, self.adapter.caller.secrets)
        return "it does not say why"

    def results(self, batch: str, tag: BatchTag, requests: Sequence[ModelRequest]) -> BatchResults:
        """Return the results."""
        answer = self._batch(batch)
        state = _batch_state(_metadata(answer))
        found = self.gathered(tag, requests, _result_lines(answer), self._result)
        if state not in ("CANCELLED", "EXPIRED"):
            return found

        left = self.expired if state == "EXPIRED" else self.cancelled
        results = {index: left() for index in range(len(requests))}
        return BatchResults({**results, **found.results}, found.foreign, found.unreadable)

    def _result(self, response: Mapping[str, Any], request: ModelRequest) -> Result:
        """Return what a response says of its request."""
        match response:
            case {"response": dict(answer)}:
                return self.read(200, answer, request)
            case {"error": dict(error)}:
                code = error.get("code")
                if code == _CANCELLED:
                    return self.cancelled()
                status = _HTTP.get(code, 500) if type(code) is int else 500
                return self.read(status, {"error": {**error, "code": status}}, request)

        raise self.unreadable("a result has neither a response nor an error")


def _metadata(batch: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = batch.get("metadata")
    return metadata if isinstance(metadata, Mapping) else {}


def _batch_state(metadata: Mapping[str, Any]) -> str:
    state = str(metadata.get("state"))
    for prefix in _STATES:
        state = state.removeprefix(prefix)
    return state


def _result_lines(answer: Mapping[str, Any]) -> Iterable[ResultLine | None]:
    """Yield the results of a batch; None of one that names no request."""
    for response in _responses(answer):
        match response:
            case {"metadata": {"key": str(request_id)}}:
                yield ResultLine(request_id, response)
            case _:
                yield None


def _responses(answer: Mapping[str, Any]) -> list[Any]:
    """Return the responses of a batch, which its operation has once or twice; the same each time."""
    places = (_metadata(answer).get("output"), answer.get("response"))
    for place in places:
        match place:
            case {"inlinedResponses": {"inlinedResponses": list(responses)}}:
                return responses
            case {"output": {"inlinedResponses": {"inlinedResponses": list(responses)}}}:
                return responses

    return []
