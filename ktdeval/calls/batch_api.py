"""Batch interface of a provider: many requests at once, answered within a day at a lower price.

An adapter names one in its traits (`ModelTraits.batches`). It makes one attempt of each thing it is asked
to do, as `RemoteModel.reply` does; the suite waits, repeats, records and pays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol, cast

from ktdeval.calls.prices import Price
from ktdeval.errors import ModelError, ProviderError
from ktdeval.harness.chat_messages import ModelRequest, Reply
from ktdeval.harness.traits import model_traits

EXPIRED = "batch_expired"
CANCELLED = "batch_cancelled"
"""Kinds of `ModelError` of a request that a batch left unanswered, at no cost: its time was over,
or it was cancelled.
"""


@dataclass(frozen=True, slots=True)
class BatchTag:
    """Name that a run gives to a batch before it submits it, so that it finds it again."""

    name: str  #: unique to run and batch, at most 40 characters of a-z, 0-9 and `-`
    begun_at: datetime  #: when it was to be submitted, in UTC
    requests: int  #: how many it holds

    def id_of(self, index: int) -> str:
        """Return the id of a request by its place in the batch from 0: at most 48 characters of
        a-z, 0-9 and `-`.
        """
        return f"{self.name}-{index}"

    def index_of(self, request_id: object) -> int | None:
        """Return the index of a request by its id; None if the id is not of this batch."""
        name, _, index = str(request_id).rpartition("-")
        if name != self.name or not (index.isascii() and index.isdecimal()):
            return None

        number = int(index[:9])
        return number if number < self.requests and self.id_of(number) == request_id else None


@dataclass(frozen=True, slots=True)
class BatchState:
    """State of a batch."""

    done: int  #: requests that are over, as far as the provider tells
    is_over: bool  #: whether there are results, and no more will come
    problem: str = ""  #: why the provider did none of it; empty otherwise


Result = Reply | ModelError | ProviderError
"""Outcome of one request: its reply, or the reason why it has none."""


@dataclass(frozen=True)
class BatchResults:
    """Results of a batch."""

    #: by place in the batch; a request that is missing has no result
    results: Mapping[int, Result] = field(default_factory=dict)
    foreign: int = 0  #: results of requests that are none of the batch
    unreadable: int = 0  #: results that can't be read, and belong to no request


class Batches(Protocol):
    """Batch interface of a provider. Each method makes one attempt: it raises ModelError where that
    failed, ProviderError where every attempt would.
    """

    max_requests: int  #: in one batch
    max_bytes: int  #: of one batch, as of `size`

    def price(self, ordinary: Price) -> Price:
        """Return the price of tokens in a batch."""

    def size(self, request: ModelRequest) -> int:
        """Return how many bytes a request takes in a batch, its id included."""

    def find(self, tag: BatchTag, others: Sequence[str]) -> str | None:
        """Return the id of the batch that was submitted with a tag; None if there is no such batch.

        If a provider keeps no tags, it returns a candidate by time and number of requests that is
        not in `others`; the results then show whether it is the right one (`BatchResults.foreign`).
        """

    def submit(self, tag: BatchTag, requests: Sequence[ModelRequest]) -> str:
        """Submit a batch under a tag and return its id."""

    def state(self, batch: str) -> BatchState:
        """Return how far a batch is."""

    def results(self, batch: str, tag: BatchTag, requests: Sequence[ModelRequest]) -> BatchResults:
        """Return the results of a batch that is over."""


def batches_of(model: object) -> Batches | None:
    """Return the batch interface that a model's traits name; None if the adapter has no batch
    interface.
    """
    return cast("Batches | None", model_traits(model).batches)
