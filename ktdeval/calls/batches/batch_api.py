"""A provider's batch interface: many requests at once, answered within a day at a lower price.

An adapter declares the interface in its traits (`ModelTraits.batches`). Each method makes a single
attempt, as `RemoteModel.reply` does; the suite handles waiting, retries, records and payment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Protocol, cast

from msgspec import Meta

from ktdeval.calls.costs.prices import Price
from ktdeval.errors import ModelError, ProviderError
from ktdeval.harness.chat_messages import ModelRequest, Reply
from ktdeval.harness.traits import model_traits

BatchId = Annotated[str, Meta(pattern="^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$")]
"""Provider's id of a batch; it becomes a part of URLs."""

EXPIRED = "batch_expired"
CANCELLED = "batch_cancelled"
"""Kinds of `ModelError` for a request that a batch left unanswered at no cost, because the batch
expired or was cancelled.
"""


@dataclass(frozen=True, slots=True)
class BatchTag:
    """Name that a run gives to a batch before submission, so that it can find the batch again."""

    name: str  #: unique to the run and batch, at most 40 characters from a-z, 0-9 and `-`
    begun_at: datetime  #: planned time of submission, in UTC
    requests: int  #: number of requests in the batch

    def id_of(self, index: int) -> str:
        """Return the id of a request, given its index (from 0) in the batch. The id has at most 48
        characters from a-z, 0-9 and `-`.
        """
        return f"{self.name}-{index}"

    def index_of(self, request_id: object) -> int | None:
        """Return the index of a request in the batch, given the request's id; None if the id does
        not belong to this batch.
        """
        name, _, index = str(request_id).rpartition("-")
        if name != self.name or not (index.isascii() and index.isdecimal()):
            return None

        number = int(index[:9])
        return number if number < self.requests and self.id_of(number) == request_id else None


@dataclass(frozen=True, slots=True)
class BatchState:
    """State of a batch at the provider."""

    done: int  #: number of finished requests, as far as the provider reports it
    is_over: bool  #: True if the results are complete
    problem: str = ""  #: why the provider processed no requests; otherwise empty


Result = Reply | ModelError | ProviderError
"""Outcome of one request: its reply, or the reason why it has none."""


@dataclass(frozen=True)
class BatchResults:
    """Results of a batch."""

    #: results keyed by index in the batch; a request that is missing here has no result
    results: Mapping[int, Result] = field(default_factory=dict)
    foreign: int = 0  #: number of results for requests outside the batch
    unreadable: int = 0  #: number of unreadable results that can't be matched to a request


class Batches(Protocol):
    """Batch interface of a provider. Each method makes one attempt. It raises ModelError if the
    attempt failed, and ProviderError if every attempt would fail.
    """

    max_requests: int  #: maximum number of requests in a batch
    max_bytes: int  #: maximum total `size` of a batch in bytes

    def price(self, ordinary: Price) -> Price:
        """Return the token price for a batch."""

    def size(self, request: ModelRequest) -> int:
        """Return how many bytes a request adds to a batch, including the request's id."""

    def find(self, tag: BatchTag, others: Sequence[str]) -> str | None:
        """Return the id of the batch that was submitted with a tag; None if there is no such batch.

        If the provider does not store tags, the result is a candidate that matches the time and
        number of requests and is not in `others`. The results then show whether it is the right
        batch (`BatchResults.foreign`).
        """

    def submit(self, tag: BatchTag, requests: Sequence[ModelRequest]) -> str:
        """Submit a batch under a tag and return its id."""

    def state(self, batch: str) -> BatchState:
        """Return the progress of a batch."""

    def results(self, batch: str, tag: BatchTag, requests: Sequence[ModelRequest]) -> BatchResults:
        """Return the results of a finished batch."""


def batches_of(model: object) -> Batches | None:
    """Return the batch interface declared in a model's traits; None if the traits declare no such
    interface.
    """
    return cast("Batches | None", model_traits(model).batches)
