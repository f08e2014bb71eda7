"""Common parts of the batch interfaces: requests through the adapter's client, and results keyed by
request id.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import msgspec

from ktdeval.calls import (
    CANCELLED,
    EXPIRED,
    BatchId,
    BatchResults,
    BatchState,
    BatchTag,
    Price,
    Result,
    bad_response,
    error_of,
    json_object,
    not_json,
    quote_server_text,
    read_refusal,
    refusal_of,
    refused_body,
)
from ktdeval.errors import ModelError, ProviderError
from ktdeval.harness import ModelRequest, Reply
from ktdeval.values import JsonValue, dumps_compact
from ktdeval_models.remote.streams.assembly import object_or_empty
from ktdeval_models.remote.transport import HttpRequest, TimeLimits, json_content

if TYPE_CHECKING:
    from ktdeval_models.remote.base import RemoteAdapter

#: Timeout of a request about a batch, which may contain all prompts or replies of the batch
_TIMEOUT_S = 600.0
_MAX_RESULT_BYTES = 512 << 20
#: maximum number of pages to search in a provider's list of batches, and batches per page
_MAX_PAGES = 100
_PAGE = 100
#: batch states, as all providers name them
_FAILED = "failed"
_LATE = "expired"
_LEFT = (_LATE, "cancelled")
_NO_REASON = "it does not say why"
#: fields of an answer that may contain the id of a batch or a file
_NAMES = ("id", "name")
#: how far the provider's clock may lag behind the local clock
_SKEW = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class ResultLine:
    """Result of one request."""

    request_id: str  #: request id, as the result gives it
    content: Mapping[str, Any]


class AdapterBatches:
    """The parts of a batch interface that do not depend on the provider; see
    `ktdeval.calls.Batches`. Subclasses cite the sources of the limits, and define the provider's
    paths and field names.
    """

    max_requests = 10_000  # per batch; all providers accept more
    max_bytes = 64 << 20

    path = ""  # path of the batches, below the endpoint
    takes_tag = True  # whether a batch can carry its tag
    # list field in an answer; query fields for size and cursor
    list_words = ("data", "limit", "after")
    # value if the list is missing; None: a missing list is an error
    empty_list: Sequence[Any] | None = None
    status_word = "status"
    done_words: tuple[str, ...] = ()  # counts of requests that have ended
    over: Collection[str] = ()  # states of a finished batch, in addition to `_FAILED` and `_LEFT`

    def __init__(self, adapter: RemoteAdapter) -> None:
        self.adapter = adapter

    def price(self, ordinary: Price) -> Price:
        """Return the price in a batch: half of each ordinary price."""
        return ordinary.in_batch()

    def size(self, request: ModelRequest) -> int:
        """Return the size in bytes of a request in a batch, including its id and address."""
        return len(json_content(self.adapter.encode(request))) + 200

    # ---- requests

    def get(self, path: str, **query: Any) -> dict[str, Any]:
        """Return the JSON object at a path below the endpoint. Query parameters that are None are
        omitted.
        """
        return self._object(self.load(path, **query))

    def load(self, path: str, **query: Any) -> bytes:
        """Return the contents at a path below the endpoint."""
        given = {name: value for name, value in query.items() if value is not None}
        where = f"{path}?{urlencode(given)}" if given else path
        return self._send("GET", where)

    def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Post a JSON body, and return the JSON object in the answer."""
        return self.post_bytes(path, json_content(body), "application/json")

    def post_bytes(self, path: str, content: bytes, kind: str) -> dict[str, Any]:
        """Post a body with the given content type, and return the JSON object in the answer."""
        return self._object(self._send("POST", path, content, kind))

    def _send(self, method: str, path: str, content: bytes = b"", kind: str = "") -> bytes:
        """Return the contents of a successful answer. Raises ModelError, ProviderError."""
        self.adapter.connect()
        assert self.adapter.client is not None
        caller = self.adapter.caller
        url = f"{self.adapter.endpoint}{path}"
        request = HttpRequest(method, url, content, kind=kind, max_bytes=_MAX_RESULT_BYTES)
        answer = self.adapter.client.send(request, TimeLimits(_TIMEOUT_S), caller)
        if 200 <= answer.status < 300:
            return answer.content
        raise error_of(refusal_of(answer.status, answer.content, answer.headers), caller)

    def _object(self, content: bytes) -> dict[str, Any]:
        """Return a JSON object. If the object has a batch id, an `error` in it belongs to the
        batch. Any other error belongs to this request and is raised.
        """
        value = json_object(content, self.adapter.caller, _decode_body)
        refused = refused_body(value)
        if refused is not None and not any(name in value for name in _NAMES):
            raise error_of(read_refusal(200, refused), self.adapter.caller)
        return value

    def lines(self, path: str) -> Iterable[ResultLine | None]:
        """Return the results in a JSON Lines file at a path; None for a line that is not a result.
        Raises ModelError if the server sent an HTML page instead.
        """
        content = self.load(path)
        if content.lstrip().startswith(b"<"):
            raise not_json(content, f"{self._who}: {path}", self._secrets)
        return json_lines(content)

    def status_in(self, answer: Mapping[str, Any], name: str) -> str:
        """Return the state of a batch in an answer. Raises ModelError if the state is missing, so
        that nobody waits for a batch that does not exist.
        """
        status = answer.get(name)
        if not isinstance(status, str):
            raise self.unreadable(f"it gives no {name!r} of a batch", dict(answer))
        return status

    def id_in(self, answer: Mapping[str, Any], name: str = "id") -> str:
        """Return the provider's id of a batch or a file. Raises ModelError if the answer has no id
        that can be part of an address.
        """
        try:
            return quote(msgspec.convert(answer.get(name), BatchId))
        except msgspec.ValidationError:
            raise self.unreadable("it names no batch", dict(answer)) from None

    def unreadable(self, problem: str, answer: JsonValue = "") -> ModelError:
        """Return the error for an answer that does not have the form of the batch interface. The
        error quotes the answer.
        """
        words = quote_server_text(
            answer if isinstance(answer, str) else dumps_compact(answer), self._secrets
        )
        return bad_response(self.adapter.caller, f"its batch interface: {problem}{words}")

    @property
    def _secrets(self) -> tuple[str, ...]:
        return self.adapter.caller.secrets

    # ---- batches

    def find(self, tag: BatchTag, others: Sequence[str]) -> str | None:
        """Return the batch with a tag; None if not found. If batches can't carry a tag, return the
        oldest matching batch created since the tag's time.
        """
        oldest = None
        for batch in self._list_batches():
            created = self.creation_time(batch)
            if created is not None and created < tag.begun_at - _SKEW:
                break  # the list is sorted newest first

            if self.is_of(batch, tag) and self.id_of(batch) not in others:
                oldest = self.id_of(batch)
                if self.takes_tag:
                    break

        return oldest

    def _list_batches(self) -> Iterator[Mapping[str, Any]]:
        """Yield the batches in the provider's list, page by page."""
        words, size, cursor = self.list_words
        after = None
        for _ in range(_MAX_PAGES):
            answer = self.get(self.path, **{size: _PAGE, cursor: after})
            batches = answer.get(words, self.empty_list)
            if not isinstance(batches, list):
                raise self.unreadable(f"its list of batches has no {words!r}", answer)

            yield from map(object_or_empty, batches)
            after = self.next_page(answer, batches)
            if after is None:
                return

    def next_page(self, answer: Mapping[str, Any], batches: Sequence[Any]) -> Any:
        """Return the cursor of the next page; None on the last page."""
        if not batches or not answer.get("has_more"):
            return None
        return object_or_empty(batches[-1]).get("id")

    def creation_time(self, batch: Mapping[str, Any]) -> datetime | None:  # noqa: ARG002 - of a subclass
        """Return when a batch in the list was created; None if unknown."""
        return None

    def is_of(self, batch: Mapping[str, Any], tag: BatchTag) -> bool:
        """Return whether a batch in the list may be the one with a tag."""
        raise NotImplementedError

    def id_of(self, batch: Mapping[str, Any]) -> str:
        """Return the id of a batch. Raises the same errors as `id_in`."""
        return self.id_in(batch)

    def look_at(self, batch: str) -> dict[str, Any]:
        """Return the provider's description of a batch."""
        return self.get(f"{self.path}/{batch}")

    def status(self, answer: Mapping[str, Any]) -> str:
        """Return the state of a batch, in lower case. Raises the same errors as `status_in`."""
        return self.status_in(answer, self.status_word)

    def counts(self, batch: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the number of a batch's requests in each state."""
        return object_or_empty(batch.get("request_counts"))

    def count(self, batch: Mapping[str, Any], words: Sequence[str]) -> int:
        """Return how many of a batch's requests are in the given states."""
        counts = self.counts(batch)
        return sum(count_of(counts.get(word)) for word in words)

    def state(self, batch: str) -> BatchState:
        """Return the progress of a batch."""
        answer = self.look_at(batch)
        done = self.count(answer, self.done_words)
        status = self.status(answer)
        if status == _FAILED:
            return BatchState(done, is_over=True, problem=self.problem(answer))
        return BatchState(done, status in self.over or status in _LEFT)

    def problem(self, answer: Mapping[str, Any]) -> str:  # noqa: ARG002 - of a subclass
        """Return why a batch failed, in the provider's words."""
        return _NO_REASON

    # ---- results

    def read(self, status: int, answer: JsonValue, request: ModelRequest) -> Reply:
        """Return the reply in the answer to one request. Raises the same errors as
        `RemoteModel.reply`.
        """
        return self.adapter.read_answer(status, json_content(answer), request)

    def left_out(self, word: str) -> ModelError:
        """Return the error for a request that was never started because the batch expired or was
        cancelled. `word` is the provider's status.
        """
        if word.endswith(_LATE):
            return ModelError(EXPIRED, f"{self._who}: the batch's time was over")
        return ModelError(CANCELLED, f"{self._who}: the batch was cancelled")

    @property
    def _who(self) -> str:
        return f"{self.adapter.provider}/{self.adapter.name}"

    def results(self, batch: str, tag: BatchTag, requests: Sequence[ModelRequest]) -> BatchResults:
        """Return the results, with an error for each request that was never started."""
        answer = self.look_at(batch)
        found = self.match_results(tag, requests, self.result_lines(answer))
        status = self.status(answer)
        if status not in _LEFT:
            return found

        results = {index: self.left_out(status) for index in range(len(requests))}
        return BatchResults({**results, **found.results}, found.foreign, found.unreadable)

    def result_lines(self, answer: Mapping[str, Any]) -> Iterable[ResultLine | None]:
        """Return the results in the provider's description of a batch; None for a result that can't
        be read.
        """
        raise NotImplementedError

    def result(self, line: Mapping[str, Any], request: ModelRequest) -> Result:
        """Return the result in a line, or raise its error."""
        raise NotImplementedError

    def match_results(
        self,
        tag: BatchTag,
        requests: Sequence[ModelRequest],
        lines: Iterable[ResultLine | None],
    ) -> BatchResults:
        """Return the results, keyed by the index of their request. A repeated result counts once;
        two different results for one request give an error.
        """
        results: dict[int, Result] = {}
        foreign = 0
        unreadable = 0
        for line in lines:
            if line is None:
                unreadable += 1
                continue

            index = tag.index_of(line.request_id)
            if index is None:
                foreign += 1
                continue

            try:
                result: Result = self.result(line.content, requests[index])
            except (ModelError, ProviderError) as error:
                result = error

            if index in results and not _same(results[index], result):
                result = self.unreadable("it has two results of one request that differ")

            results[index] = result

        return BatchResults(results, foreign, unreadable)


def requests_with_ids(
    tag: BatchTag, requests: Sequence[ModelRequest]
) -> list[tuple[str, ModelRequest]]:
    """Pair requests with their ids."""
    return [(tag.id_of(index), request) for index, request in enumerate(requests)]


def json_lines(content: bytes) -> Iterable[ResultLine | None]:
    """Yield the results in JSON Lines, each with a `custom_id`; None for any other line."""
    for line in content.split(b"\n"):
        if not line.strip():
            continue

        try:
            value = msgspec.json.decode(line)
        except (ValueError, RecursionError):
            value = None

        match value:
            case {"custom_id": str(request_id)}:
                yield ResultLine(request_id, value)
            case _:
                yield None


def _decode_body(content: bytes) -> Any:
    """Return the JSON in a body. Raises ValueError if the body is not JSON."""
    try:
        return msgspec.json.decode(content)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def count_of(value: Any) -> int:
    """Return a count; 0 if the value is not a count. Google sends strings."""
    if isinstance(value, str) and value.isascii() and value.isdecimal():
        return int(value[:12])
    return value if type(value) is int and value > 0 else 0


def _same(one: Result, other: Result) -> bool:
    """Return whether two results of one request are equal."""
    if isinstance(one, Reply) or isinstance(other, Reply):
        return one == other
    return str(one) == str(other)
