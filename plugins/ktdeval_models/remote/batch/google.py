"""Batch mode of the Gemini API.

Sources: https://ai.google.dev/api/batch-api, https://ai.google.dev/gemini-api/docs/batch-api and
the types of the `google-genai` package: inline requests may take up to 20 MB. A batch should end
within 24 hours, and costs half except for prompt-cache reads. A batch that has not ended after 48
hours has no results. The display name of a batch is its tag.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ktdeval.calls import BatchTag, Price, Result, one_line
from ktdeval.harness import ModelRequest
from ktdeval_models.remote.batch.common import (
    AdapterBatches,
    ResultLine,
    requests_with_ids,
)
from ktdeval_models.remote.streams.assembly import object_or_empty

if TYPE_CHECKING:
    from ktdeval_models.remote.base import RemoteAdapter

_FOLDER = "batches/"
_STATES = ("BATCH_STATE_", "JOB_STATE_")  # older answers use the second field

#: HTTP status for each code of `google.rpc.Code`
_HTTP = {
    3: 400, 4: 504, 5: 404, 6: 409, 7: 403, 8: 429, 9: 400, 10: 409, 11: 400, 12: 501, 13: 500,
    14: 503, 15: 500, 16: 401,
}  # fmt: skip
_CANCELLED = 1


class GoogleBatches(AdapterBatches):
    """Batches of Gemini models."""

    max_bytes = 16 << 20
    list_words = ("operations", "pageSize", "pageToken")
    empty_list: Sequence[Any] = []
    done_words = ("successfulRequestCount", "failedRequestCount")
    over = ("succeeded", "partially_succeeded")

    def __init__(self, adapter: RemoteAdapter, api_version: str) -> None:
        super().__init__(adapter)
        self.path = f"/{api_version}/batches"

    def price(self, ordinary: Price) -> Price:
        """Return the price in a batch: half, except that prompt-cache reads are charged at full
        price.
        """
        return ordinary.in_batch(halves_cache_reads=False)

    def is_of(self, batch: Mapping[str, Any], tag: BatchTag) -> bool:
        """Return whether a batch has a tag's name as its display name."""
        return _metadata(batch).get("displayName") == tag.name

    def next_page(self, answer: Mapping[str, Any], batches: Sequence[Any]) -> Any:  # noqa: ARG002
        """Return the cursor of the next page; None on the last page."""
        return answer.get("nextPageToken") or None

    def submit(self, tag: BatchTag, requests: Sequence[ModelRequest]) -> str:
        """Create the batch, with the requests inline."""
        items = [
            {"request": self.adapter.encode(request), "metadata": {"key": request_id}}
            for request_id, request in requests_with_ids(tag, requests)
        ]
        batch = {"displayName": tag.name, "inputConfig": {"requests": {"requests": items}}}
        path = self.adapter.path.replace(":generateContent", ":batchGenerateContent")
        return self.id_of(self.post(path, {"batch": batch}))

    def id_of(self, batch: Mapping[str, Any]) -> str:
        """Return the id of a batch, without its path prefix."""
        name = batch.get("name")
        if isinstance(name, str):
            batch = {**batch, "name": name.removeprefix(_FOLDER)}
        return self.id_in(batch, "name")

    def status(self, answer: Mapping[str, Any]) -> str:
        """Return the state of a batch, in lower case. Raises the same errors as `status_in`."""
        state = self.status_in(_metadata(answer), "state")
        for prefix in _STATES:
            state = state.removeprefix(prefix)
        return state.lower()

    def counts(self, batch: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the number of a batch's requests in each state."""
        return object_or_empty(_metadata(batch).get("batchStats"))

    def problem(self, answer: Mapping[str, Any]) -> str:
        """Return why a batch failed, in the provider's words."""
        match answer.get("error"):
            case {"message": str(message)}:
                return one_line(message, self.adapter.caller.secrets)
        return super().problem(answer)

    def result_lines(self, answer: Mapping[str, Any]) -> Iterable[ResultLine | None]:
        """Yield the results of a batch; None for a result without a request id."""
        for response in _responses(answer):
            match response:
                case {"metadata": {"key": str(request_id)}}:
                    yield ResultLine(request_id, response)
                case _:
                    yield None

    def result(self, line: Mapping[str, Any], request: ModelRequest) -> Result:
        """Return the result in a response."""
        match line:
            case {"response": dict(answer)}:
                return self.read(200, answer, request)
            case {"error": dict(error)}:
                code = error.get("code")
                if code == _CANCELLED:
                    return self.left_out("cancelled")
                status = _HTTP.get(code, 500) if type(code) is int else 500
                return self.read(status, {"error": {**error, "code": status}}, request)

        raise self.unreadable("a result has neither a response nor an error")


def _metadata(batch: Mapping[str, Any]) -> Mapping[str, Any]:
    return object_or_empty(batch.get("metadata"))


def _responses(answer: Mapping[str, Any]) -> list[Any]:
    """Return the responses of a batch. The batch operation has the same responses in one or two
    places.
    """
    places = (_metadata(answer).get("output"), answer.get("response"))
    for place in places:
        match place:
            case {"inlinedResponses": {"inlinedResponses": list(responses)}}:
                return responses
            case {"output": {"inlinedResponses": {"inlinedResponses": list(responses)}}}:
                return responses

    return []
