"""Client that makes model calls in batches. For scoring tasks, a `WantingModel` collects the calls
before their steps run (`BatchClient.ask`). For trading episodes, the calls are made while the
episodes run side by side (`BatchClient.ask_in_rounds`).
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from itertools import islice
from typing import TypeVar

from msgspec.structs import replace

from ktdeval.calls.batches.batch_api import (
    CANCELLED,
    EXPIRED,
    BatchResults,
    Result,
    batches_of,
)
from ktdeval.calls.batches.episode_rounds import EpisodeRounds, Send
from ktdeval.calls.batches.submitted_batches import BatchedRequest, BatchEntry, BatchFile
from ktdeval.calls.budget import Reservation
from ktdeval.calls.client import ClientSettings, EpisodeModel, ModelClient
from ktdeval.calls.costs.prices import Price
from ktdeval.calls.costs.prompt_size import prompt_bytes
from ktdeval.calls.failures.context_refusals import ContextExceeded
from ktdeval.calls.failures.retry import RETRYABLE, Notify, is_retryable
from ktdeval.calls.pending_call import CallSource, PendingCall, WantedReply, Watch, watch_nothing
from ktdeval.calls.records.call_log import CallLog, CallPosition, read_calls
from ktdeval.calls.records.record import CACHED, KEY_DIGITS, NO_EPISODE, REFUSED, request_key
from ktdeval.calls.stop_flag import Fence, StopSignal, no_fence
from ktdeval.errors import ConfigError, KtdevalError, ModelError, ProviderError, StoreError
from ktdeval.harness.chat_messages import ModelRequest, RemoteModel, Reply, sound

_FIRST_WAIT_S = 5.0  #: seconds before the first check of a batch's state
_LONGEST_WAIT_S = 120.0
_GROWTH = 1.5  #: factor by which the wait grows after each check
#: seconds before a second look-up, if a batch may have been submitted but the provider does not
#: show it; only then is the batch submitted again
_SETTLE_S = 60.0
#: kinds of temporary failure, after which the same request may still be answered
_PASSING = RETRYABLE | {EXPIRED, CANCELLED}
#: kinds of failure after which the provider may nevertheless have accepted a batch
_UNCERTAIN = RETRYABLE - {"rate_limited"}
#: failure kind of all requests in a batch that the provider rejected as a whole
_NOT_DONE = "batch_failed"
_LOG = logging.getLogger(__name__)

T = TypeVar("T")

Tell = Callable[[int, int, float], None]
"""Called while waiting for batches: finished requests, all requests, seconds to wait."""


class BatchUnanswered(KtdevalError):
    """Requests of an episode have no reply and will be sent again when the run is resumed. No
    decision was made in their place.
    """


@dataclass
class _SentBatch:
    """Batch that was submitted, or is about to be."""

    number: int  #: number in the batch file
    wanted: Sequence[WantedReply]
    reservations: Sequence[Reservation]
    done: int = 0


class BatchClient(ModelClient):
    """Calls of a run to one remote model. Calls of episodes are made in batches at the batch price;
    calls for the run's own checks are ordinary calls. `ask` submits the requests; a call then gets
    the reply that arrived, or a cached reply.

    Each batch is recorded (`BatchFile`) under a unique tag before it is submitted. If a process
    ends before it learns the batch's id, the next process looks for the tag at the provider, so
    that no batch is submitted twice. The budget for a batch's maximum cost is reserved in advance.
    """

    def __init__(
        self,
        model: RemoteModel,
        settings: ClientSettings,
        price: Price | None,
        log: CallLog,
        stop: StopSignal,
    ) -> None:
        """Open a run's batches. `price` is the price of ordinary calls. Raises KtdevalError."""
        super().__init__(model, settings, price, log, stop)
        batches = batches_of(model)
        if batches is None:
            raise ConfigError(f"--batch: {self.name} has no batch interface; leave it out")

        self._batches = batches
        self._rounds: EpisodeRounds | None = None
        self._send_round: Send = self.ask
        self._batch_price = None if price is None else batches.price(price)
        self._file = BatchFile(log.path.parent)
        self._openings: dict[str, int] = {}
        # True if the provider's batch interface has answered in this session
        self._has_batches = False
        self._fresh: set[CallPosition] = set()  # replies that already have their own row in the log
        self._failed: dict[CallPosition, ModelError | ProviderError] = {}  # in this session

        # requests in batches whose results are not recorded yet
        self._awaited: set[CallPosition] = set()
        # number of failures in closed batches, by request and kind of failure
        self._refusals: Counter[tuple[CallPosition, str]] = Counter()
        for entry in self._file.entries:
            self._follow(entry)

        # requests answered in earlier sessions
        self._answered: set[CallPosition] = set()
        self._attempts: Counter[CallPosition] = Counter()
        for record in read_calls(log.path.parent):
            position = (record.episode, record.key)
            self._attempts[position] += record.outcome != CACHED
            if record.is_answered:
                self._answered.add(position)

    # ---- calls of episodes

    def for_episode(
        self,
        episode_id: str,
        notify: Notify = lambda *_: None,
        fence: Fence = no_fence,
        watch: Watch = watch_nothing,
    ) -> EpisodeModel:
        """Return the model for the calls of one episode, as `ModelClient.for_episode` does. Calls
        made in batches belong to the same opening of the episode.
        """
        if episode_id in NO_EPISODE:
            return super().for_episode(episode_id, notify, fence, watch)

        asker = CallSource(episode_id, self._opening(episode_id), fence=fence, watch=watch)
        return EpisodeModel(self, asker, notify)

    def _opening(self, episode: str) -> int:
        """Return how often an episode has been opened, including the opening in this session."""
        if episode not in self._openings:
            self._openings[episode] = self._log.new_opening(episode)
        return self._openings[episode]

    def ask_in_rounds(self, rounds: EpisodeRounds, tell: Tell, notify: Notify) -> None:
        """Make the calls of episodes in rounds. A call waits until every running episode is waiting
        for a call; then all these calls are sent as one batch. `tell` and `notify`: as for `ask`.
        """
        self._rounds = rounds
        self._send_round = lambda wanted: self.ask(self._distinct(wanted), tell, notify)

    def wait_for_round(self, wanted: Sequence[WantedReply]) -> None:
        """Make an episode's calls in the next round. Raises as `ask` does."""
        assert self._rounds is not None
        self._rounds.ask(wanted, self._send_round, self._stop.check)

    def _distinct(self, wanted: Sequence[WantedReply]) -> Sequence[WantedReply]:
        """Return the requests to send: equal ones only once, unless already in a batch."""
        keys = set[str]()
        found = []
        for each in wanted:
            if each.key not in keys or self.awaits(each.position):
                keys.add(each.key)
                found.append(each)

        return found

    def _look_up(self, call: PendingCall) -> Reply:
        """Return the reply to a call. In rounds, wait for the round in which the call is made."""
        if self._rounds is None or call.asker.label in NO_EPISODE:
            return super()._look_up(call)

        wanted = WantedReply(call.asker.label, call.asker.step or 0, call.key, call.request)
        while True:
            began = time.perf_counter()
            reply = self.find_reply(wanted)
            if reply is not None:
                return self._reuse(call, reply, began)
            if not self.can_ask(wanted):
                return self._ask(call)  # raises the reason

            call.asker.fence()
            self.wait_for_round([wanted])

    def _reuse(self, call: PendingCall, reply: Reply, began: float) -> Reply:
        """Return a reply. A reply from one of this session's batches is already recorded."""
        if call.position not in self._fresh:
            return super()._reuse(call, reply, began)

        self._fresh.remove(call.position)
        with self._lock:
            self._failures = 0

        return reply

    def _ask(self, call: PendingCall) -> Reply:
        """Make a call for a check of the run. For an episode's call, raise why it has no reply."""
        if call.asker.label in NO_EPISODE:
            return super()._ask(call)

        error = self._failed.get(call.position)
        if isinstance(error, ProviderError):
            raise error

        try:
            if error is None:
                self._check_context(call)
            elif self._is_final(call.position, error):
                raise error
        except ModelError as failure:
            self._count_failure(failure)
            raise

        raise BatchUnanswered(self._explain_missing_reply(call.asker.label))

    def _is_final(self, position: CallPosition, error: ModelError) -> bool:
        """Return whether a request was rejected twice for this reason, so must not be sent again."""
        if error.kind in _PASSING:
            return False

        return self._refusals[position, error.kind] > 1

    def _explain_missing_reply(self, episode: str) -> str:
        """Return why an episode can't continue."""
        kinds = Counter[str]()
        first = ""
        for (label, _), error in self._failed.items():
            if label == episode:
                kinds[error.kind if isinstance(error, ModelError) else "refused"] += 1
                first = first or str(error)

        if not kinds:
            return (
                "its request differs from the one that was collected for its batch; agents and"
                " tasks must give equal requests for equal input"
            )

        named = ", ".join(f"{kind} {number:,}" for kind, number in sorted(kinds.items()))
        return (
            f"{kinds.total():,} of its requests came back from the batch without a reply ({named};"
            f" {first}); run the same command again to send them again"
        )

    # ---- what is to be asked

    def make_wanted(self, episode: str, step: int, request: ModelRequest) -> WantedReply:
        """Return a request together with its key."""
        return WantedReply(episode, step, request_key(self._model, request), request)

    def find_reply(self, wanted: WantedReply) -> Reply | None:
        """Return the reply to a request without recording it; None if there is no reply yet, or if
        the request is pending in a batch.
        """
        if self.awaits(wanted.position):
            return None

        reply = self._paid_replies.get(wanted.position)
        return self._log.reply(wanted.key) if reply is None else reply

    def awaits(self, position: CallPosition) -> bool:
        """Return whether a request is in a batch whose results are not recorded yet."""
        return position in self._awaited

    def can_ask(self, wanted: WantedReply) -> bool:
        """Return whether a request may be sent. It may not if it failed in this session, or if its
        prompt is known to exceed the context.
        """
        if wanted.position in self._failed:
            return False
        if self.awaits(wanted.position):
            return True

        try:
            self.context.check(wanted.request, prompt_bytes(wanted.request))
        except ContextExceeded:
            return False

        return True

    # ---- batches

    def ask(
        self,
        wanted: Sequence[WantedReply],
        tell: Tell = lambda *_: None,
        notify: Notify = lambda *_: None,
        fence: Fence = no_fence,
    ) -> None:
        """Make requests in batches and record the results. Pending batches come first, and their
        requests must be among `wanted`; the other requests follow. `fence` is called before each
        submission.

        Raises RunStop if the budget does not cover the batch or the provider rejects it. Also
        raises StoreError and KeyboardInterrupt. A request without a reply fails when its step makes
        the call.
        """
        by_position = {each.position: each for each in wanted}
        found = []
        for number, entry in enumerate(self._file.entries):
            if not entry.is_over:
                found.append(self._find_batch(number, by_position))

        self._settle(found, tell, notify, fence)

        unfailed = [each for each in wanted if each.position not in self._failed]
        rest = [each for each in unfailed if self.find_reply(each) is None]
        if not rest:
            return

        self._log.check_room()
        requests = [each.request for each in rest]
        reserved = self._budget.reserve_batch(requests, self._batch_price)
        reservations = iter(reserved)
        sent = []
        for part in self._parts(rest):
            fence()
            own = list(islice(reservations, len(part)))
            batch = _SentBatch(self._written_down(part), part, own)
            self._submit(batch, notify, is_new=True)
            sent.append(batch)

        self._settle(sent, tell, notify, fence)

    def _find_batch(self, number: int, by_position: dict[CallPosition, WantedReply]) -> _SentBatch:
        """Return a batch from an earlier session, with its requests."""
        entry = self._file.entries[number]
        wanted = []
        for request in entry.requests:
            if request.position not in by_position:
                raise StoreError(
                    f"{self._file.path}: batch {entry.id or entry.tag} holds requests that this"
                    " run does not make: resume with the versions of ktdeval and plugins that"
                    " submitted it, or choose another --out"
                )

            wanted.append(by_position[request.position])

        requests = [each.request for each in wanted]
        reserved = self._budget.reserve_batch(requests, self._batch_price, is_sent=True)
        return _SentBatch(number, wanted, reserved)

    def _parts(self, wanted: Sequence[WantedReply]) -> Iterator[list[WantedReply]]:
        """Yield the requests for successive batches, each within the provider's limits."""
        part: list[WantedReply] = []
        size = 0
        for each in wanted:
            own = self._batches.size(each.request)
            is_full = len(part) == self._batches.max_requests
            if part and (is_full or size + own > self._batches.max_bytes):
                yield part
                part, size = [], 0

            part.append(each)
            size += own

        if part:
            yield part

    def _written_down(self, wanted: Sequence[WantedReply]) -> int:
        """Record a batch before it is submitted, and return its number."""
        number = len(self._file.entries)
        digest = sha256(f"{self._log.identity.id} {number}".encode()).hexdigest()
        requests = tuple(
            BatchedRequest(episode=each.episode, step=each.step, key=each.key[:KEY_DIGITS])
            for each in wanted
        )
        now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        entry = BatchEntry(tag=f"ktdeval-{digest[:24]}", begun_at=now, requests=requests)
        self._follow(entry)
        return self._file.add(entry)

    def _follow(self, entry: BatchEntry) -> None:
        """Update the pending and failed requests from a batch record."""
        positions = {request.position for request in entry.requests}
        if not entry.is_over:
            self._awaited |= positions
            return

        self._awaited -= positions
        for request in entry.requests:
            if request.failed is not None:
                self._refusals[request.position, request.failed] += 1

    def _entry(self, batch: _SentBatch) -> BatchEntry:
        return self._file.entries[batch.number]

    def _submit(self, batch: _SentBatch, notify: Notify, *, is_new: bool = False) -> None:
        """Submit a batch unless the provider already has it, then record its id at the provider.
        `is_new` means that the batch was never submitted before.
        """
        entry = self._entry(batch)
        requests = [each.request for each in batch.wanted]
        may_be_there = not is_new

        def attempt() -> str:
            nonlocal may_be_there
            if may_be_there:
                found = self._look_for(entry, notify)
                if found is not None:
                    return found

            try:
                return self._batches.submit(entry.name, requests)
            except ModelError as error:  # the provider may have accepted the batch anyway
                may_be_there = may_be_there or error.kind in _UNCERTAIN
                raise

        try:
            batch_id = self._try_often(attempt, notify)
        except ProviderError:
            if not may_be_there:  # the provider rejected the batch, so it need not be looked up
                self._close(batch, [_NOT_DONE] * len(batch.wanted))
            raise

        self._file.change(batch.number, id=batch_id)

    def _try_often(self, attempt: Callable[[], T], notify: Notify) -> T:
        """Return the result of an attempt, with retries. Raises ProviderError if no attempt
        succeeds.
        """
        try:
            answer = self._retries.run(
                attempt, self._stop.wait, notify, lambda _: self._has_batches
            )
            self._has_batches = True
            return answer
        except ModelError as error:
            if not is_retryable(error):
                raise ProviderError(
                    f"the provider refuses the batch: {error}; fix that and run the same command"
                    " again"
                ) from error

            advice = (
                "submitted batches continue at the provider: run the same command again to"
                " collect their replies"
            )
            if not self._has_batches:
                advice = "check the address (--base-url), then run the same command again"

            raise ProviderError(
                f"the provider's batches can't be reached: {error}; {advice}"
            ) from error

    def _look_for(self, entry: BatchEntry, notify: Notify) -> str | None:
        """Return the id of a batch that may have been submitted; None if it was not submitted."""
        found = self._batches.find(entry.name, entry.others)
        if found is None:  # a provider's list may lag behind
            notify("no_batch_found_yet", _SETTLE_S, 1, 2, "")
            self._stop.wait(_SETTLE_S)
            found = self._batches.find(entry.name, entry.others)

        return found

    def _settle(
        self, batches: Sequence[_SentBatch], tell: Tell, notify: Notify, fence: Fence
    ) -> None:
        """Wait for batches to finish and record their results."""
        total = sum(len(batch.wanted) for batch in batches)
        left = list(batches)
        wait_s = _FIRST_WAIT_S

        while left:
            for batch in tuple(left):
                if self._entry(batch).id is None:
                    fence()
                    self._submit(batch, notify)
                if self._is_settled(batch, notify):
                    left.remove(batch)

            done = sum(batch.done for batch in batches)
            if left:
                tell(done, total, wait_s)
                self._stop.wait(wait_s)
                wait_s = min(wait_s * _GROWTH, _LONGEST_WAIT_S)
            else:
                tell(total, total, 0.0)

    def _is_settled(self, batch: _SentBatch, notify: Notify) -> bool:
        """Check a batch's state and return whether it is finished. If so, record its results."""
        entry = self._entry(batch)
        batch_id = entry.id or ""

        state = self._try_often(lambda: self._batches.state(batch_id), notify)
        batch.done = min(state.done, len(batch.wanted))
        if not state.is_over:
            return False
        if state.problem:
            self._give_up(batch, state.problem)

        requests = [each.request for each in batch.wanted]

        found = self._try_often(
            lambda: self._batches.results(batch_id, entry.name, requests), notify
        )
        # the batch was found by time and size, but is not ours
        if found.foreign and not found.results:
            self._file.change(batch.number, id=None, others=(*entry.others, batch_id))
            batch.done = 0
            return False

        self._tell_of_strays(batch_id, found)
        self._record_results(batch, found)
        batch.done = len(batch.wanted)
        return True

    def _give_up(self, batch: _SentBatch, problem: str) -> None:
        """Close a batch that the provider did not process, and raise ProviderError."""
        for reservation in batch.reservations:
            self._budget.release(reservation)

        self._close(batch, [_NOT_DONE] * len(batch.wanted))
        raise ProviderError(
            f"{self.name}: the provider refused a batch of {len(batch.wanted):,} requests, and"
            f" charges nothing for it: {problem}; fix that and run the same command again"
        )

    def _tell_of_strays(self, batch_id: str, found: BatchResults) -> None:
        """Warn the user about results that belong to no request."""
        for number, what in (
            (found.foreign, "of requests that the batch does not have"),
            (found.unreadable, "that can't be read"),
        ):
            if number:
                _LOG.warning("%s: batch %s has %s results %s", self.name, batch_id, number, what)

    def _record_results(self, batch: _SentBatch, found: BatchResults) -> None:
        """Record the result of each request durably, then close the batch."""
        began = self._entry(batch).name.begun_at
        took_s = max((datetime.now(UTC) - began).total_seconds(), 0.0)
        missing = ModelError(
            "bad_response", f"{self.name}: the batch has no readable result for the request"
        )
        failures: list[str | None] = []
        for index, wanted in enumerate(batch.wanted):
            reservation = batch.reservations[index]
            result = found.results.get(index, missing)
            failures.append(self._record_result(wanted, reservation, result, took_s))

        self._log.flush()
        self._close(batch, failures)

    def _record_result(
        self, wanted: WantedReply, reservation: Reservation, result: Result, took_s: float
    ) -> str | None:
        """Record the result of one request. Return the kind of failure, or None for a reply."""
        position = wanted.position
        if position in self._answered:  # it was recorded before the process was killed
            self._budget.release(reservation)
            return None

        self._attempts[position] += 1
        asker = CallSource(wanted.episode, self._opening(wanted.episode), wanted.step)
        call = PendingCall(
            wanted.request,
            asker,
            wanted.key,
            lambda *_: None,
            is_cached=True,
            is_batched=True,
            attempts_made=self._attempts[position],
            latency_s=took_s,
        )
        if isinstance(result, Reply):
            try:
                reply = sound(result, self._without_secrets)
            except ModelError as error:
                result = error
            else:
                self.notices.tell_of_cut(call.request, reply)
                self._keep(call, reservation, reply)
                self._answered.add(position)
                self._paid_replies[position] = reply
                self._fresh.add(position)
                self._is_reached = self._is_answered = True
                return None

        self._failed[position] = result
        self._fail(call, reservation, result, was_sent=True)
        return result.kind if isinstance(result, ModelError) else REFUSED

    def _close(self, batch: _SentBatch, failures: Sequence[str | None]) -> None:
        """Record that all results of a batch have been recorded, and which requests failed."""
        requests = self._entry(batch).requests
        closed = tuple(
            replace(request, failed=kind) for request, kind in zip(requests, failures, strict=True)
        )
        entry = self._file.change(batch.number, requests=closed, is_over=True)
        self._follow(entry)
