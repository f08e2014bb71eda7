"""Client for a remote model, with cache, budget, rate limit, durable log and retries."""

from __future__ import annotations

import copy
import datetime
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace

from msgspec import structs

from ktdeval.calls.budget import Allowance, Budget, Reservation
from ktdeval.calls.concurrency_limit import CallSlot, ProviderLimiter
from ktdeval.calls.costs.context_window import ContextWindow, given_context, stated_context
from ktdeval.calls.costs.prices import Price
from ktdeval.calls.failures.context_refusals import ContextExceeded
from ktdeval.calls.failures.first_notices import FirstNotices
from ktdeval.calls.failures.http_errors import ParameterRefused
from ktdeval.calls.failures.outages import check_outage
from ktdeval.calls.failures.retry import Notify, OtherServer, RetryPolicy, first_contacts
from ktdeval.calls.pending_call import CallSource, PendingCall, Watch, watch_nothing
from ktdeval.calls.records.call_log import CallLog, ResumedCounts
from ktdeval.calls.records.record import (
    ANSWERED,
    BATCHED,
    CACHED,
    NO_EPISODE,
    REFUSED,
    CacheEntry,
    CallRecord,
    is_cacheable,
    request_key,
    tool_texts,
)
from ktdeval.calls.served_model_name import is_other_model
from ktdeval.calls.stop_flag import Fence, StopSignal, no_fence
from ktdeval.errors import ModelError, ProviderError, RunStop, StoreError
from ktdeval.harness.chat_messages import ModelRequest, RemoteModel, Reply, Usage, sound
from ktdeval.secrets.redaction import hide_keys
from ktdeval.values.disk.rollback import undone_on_error

#: failures that mean that there are too many concurrent calls
_THROTTLING = frozenset({"rate_limited", "overloaded"})
_SHOWN_PAUSE_S = 0.5  #: shorter pauses are not reported to observers


@dataclass(frozen=True)
class ClientSettings:
    """Run options for model calls. See the fields of `RunConfig` with the same names."""

    concurrency: int = 1
    call_gap_s: float = 0.0  #: minimum time between the starts of two calls
    max_retries: int = 12  #: maximum number of attempts after the first
    max_wait_s: float = 3600.0  #: maximum total wait per call in seconds, over all attempts
    #: number of consecutive calls that fail for good, without an outage, before the run stops
    max_failures: int = 3
    #: limit in US dollars over all sessions of a run; None means no limit
    max_cost: float | None = None
    #: limit on input plus output tokens over all sessions; None means no limit
    max_tokens: int | None = None
    #: context length for prompt and reply; None: as the server reports it
    context_tokens: int | None = None
    #: upper end of the first random wait after a failed attempt; it doubles with each further
    #: attempt
    backoff_s: float = 1.0


class ModelClient:
    """All calls of a run to one remote model; `beside` returns a client for another model.
    Thread-safe.

    A cached reply is reused. Otherwise the client reserves money and tokens, waits for a slot at
    the provider, makes one attempt, and records the reply durably before returning it. If the
    attempt fails for a temporary reason, the client waits and tries again.

    Each RunStop raised here is passed to `stop`, so that all episodes stop. The caller closes the
    log once no call is under way.

    Raises ConfigError if there is a cost limit but no price, and StoreError if the log can't be
    read. Once the log can't be written, the client makes no further calls.
    """

    def __init__(
        self,
        model: RemoteModel,
        settings: ClientSettings,
        price: Price | None,
        log: CallLog,
        stop: StopSignal,
    ) -> None:
        self._model = model
        self._settings = settings
        self._log = log
        self._stop = stop
        self._retries = RetryPolicy(settings.max_retries, settings.max_wait_s, settings.backoff_s)

        self.name = f"{model.provider}/{model.name}"  #: full name of the model

        resumed = log.resume(price, self.name)
        limits = (settings.max_cost, settings.max_tokens)
        self._budget = Budget(limits, price, resumed.spent, stop)
        self._limiter = ProviderLimiter(settings.concurrency, settings.call_gap_s, stop.check)
        self._begin(resumed)

    def beside(self, model: RemoteModel, price: Price | None) -> ModelClient:
        """Return a client for another model of the same run. The clients share the budget and the
        log, and for the same provider also its limits.
        """
        other = copy.copy(self)
        other._model = model
        other.name = f"{model.provider}/{model.name}"

        resumed = self._log.resume(price, other.name)
        other._budget = self._budget.beside(price, resumed.unpriced_usd)
        if model.provider != self._model.provider:
            settings = self._settings
            other._limiter = ProviderLimiter(
                settings.concurrency, settings.call_gap_s, self._stop.check
            )

        other._begin(resumed)
        return other

    def _begin(self, resumed: ResumedCounts) -> None:
        """Set up the state that belongs to this client's model."""
        settings = self._settings
        #: decides which prompts fit the model's context
        self.context = ContextWindow(given_context(settings.context_tokens))

        self._lock = threading.Lock()  # guards the two fields below
        #: pending replies to calls under way, for threads with the same request; the future
        #: resolves to None if the reply must not be shared
        self._flights: dict[str, Future[Reply | None]] = {}
        self._failures = 0
        self.sent = 0  #: number of attempts made by this client
        self._paid_replies = resumed.kept
        self._is_reached = resumed.was_answered
        self._is_answered = resumed.was_answered
        self._throttled_by = ""  # message of the last failure caused by too many calls
        self._was_looked_up_again = False
        self.notices = FirstNotices(self.name)
        self._unrecorded: StoreError | None = None

    def look_up_context(self) -> None:
        """Ask the server for the model's context length, if it reports this free of charge."""
        self.context.learn(stated_context(self._model))

    def take_over(self, calls: Sequence[CallRecord]) -> None:
        """Use the replies to calls that another process made for an episode. The log has already
        taken over these calls.
        """
        for call in calls:
            if not call.is_answered or call.model != self.name:
                continue

            self._is_reached = True
            self._is_answered = True
            if call.reply is not None:
                self._paid_replies[call.episode, call.key] = call.reply

    def share_budget(self, allowance: Allowance) -> None:
        """Charge calls, including the calls of all clients created by `beside`, to an allowance
        that several processes share.
        """
        self._budget.share(allowance)

    def for_episode(
        self,
        episode_id: str,
        notify: Notify = lambda *_: None,
        fence: Fence = no_fence,
        watch: Watch = watch_nothing,
    ) -> EpisodeModel:
        """Return the model for the calls of one episode (or of `check`).

        `notify` is called when a call waits; the reason `budget` means that it waits for other
        calls. `fence` is called before each attempt, and `watch` after it. `EpisodeModel.reply`
        raises ModelError if the call failed after all retries, RunStop or KeyboardInterrupt if the
        run is over, and FencedError if the episode now belongs to another process.
        """
        opening = self._log.new_opening(episode_id)
        asker = CallSource(episode_id, opening, fence=fence, watch=watch)
        return EpisodeModel(self, asker, notify)

    def ask_fresh(
        self,
        request: ModelRequest,
        label: str,
        notify: Notify = lambda *_: None,
        fence: Fence = no_fence,
    ) -> Reply:
        """Call the provider even if the cache contains a reply. Raises as `for_episode` does.

        The reply is stored in this run's log, so that a resumed run need not pay for it again.
        """
        key = request_key(self._model, request)
        call = PendingCall(request, CallSource(label, fence=fence), key, notify, is_cached=False)
        paid = self._paid_replies.get(call.position)
        if paid is not None:
            return self._reuse(call, paid, time.perf_counter())

        return self._stopping(lambda: self._ask(call), call)

    def reply(self, request: ModelRequest, asker: CallSource, notify: Notify) -> Reply:
        """Return a reply from the cache or the provider. See `for_episode`."""
        tools = tool_texts(request)
        key = request_key(self._model, request, tools)
        # `asker` is copied because it moves on to the next step while this call is being recorded
        call = PendingCall(request, replace(asker), key, notify, is_cached=True, tools=tools)
        return self._stopping(lambda: self._look_up(call), call)

    def _stopping(self, ask: Callable[[], Reply], call: PendingCall) -> Reply:
        """Call `ask`, and stop the whole run if `ask` raises RunStop. A parameter that is refused in
        the check before the run stops nothing yet, since the check may leave it out.
        """
        _, check = NO_EPISODE
        try:
            self._stop.check()
            return ask()
        except RunStop as error:
            if not (isinstance(error, ParameterRefused) and call.asker.label == check):
                self._stop.stop(error)
            raise

    def _look_up(self, call: PendingCall) -> Reply:
        """Return the reply from the cache, from an identical call under way, or from the
        provider.
        """
        while True:
            began = time.perf_counter()
            with self._lock:
                other = self._flights.get(call.key)
                if other is None:
                    own = self._flights[call.key] = Future()

            if other is None:
                return self._fly(call, own, began)

            # no need to check whether the run has ended, since the other thread does so
            reply = other.result()
            if reply is not None:
                return self._reuse(call, reply, began)

            # The other call failed, or its reply must not be shared, so make the call in this
            # thread.
            self._stop.check()

    def _fly(self, call: PendingCall, flight: Future[Reply | None], began: float) -> Reply:
        """Look in the cache, then call the provider. Threads with the same key wait meanwhile."""
        shared: Reply | None = None
        try:
            paid = self._paid_replies.get(call.position)
            if paid is not None:
                return self._reuse(call, paid, began)

            shared = self._log.reply(call.key)
            if shared is not None:
                return self._reuse(call, shared, began)

            reply = self._ask(call)
            if self._is_shared(reply):
                shared = reply

            return reply
        finally:
            with self._lock:
                del self._flights[call.key]

            flight.set_result(shared)

    def _reuse(self, call: PendingCall, reply: Reply, began: float) -> Reply:
        """Record a reply that cost nothing and return it."""
        call.attempts_made = 1
        call.latency_s = time.perf_counter() - began
        self._note(call, self._record(call, CACHED, reply, 0.0), reply)
        return reply

    def _ask(self, call: PendingCall) -> Reply:
        """Call the provider with retries."""
        try:
            self._check_context(call)
            reply = self._retries.run(
                lambda: self._attempt(call), self._stop.wait, call.notify, self._is_known
            )
        except ModelError as error:
            self._check_first_contact(call, error)
            if self._counts(call):
                check_outage(error, call.attempts_made)
                self._count_failure(error)

            raise

        with self._lock:
            self._failures = 0

        self._is_reached = True
        self._is_answered = True
        return reply

    def _counts(self, call: PendingCall) -> bool:
        """Return whether a call that failed for good may stop the run.

        The tool protocol probe never counts, since it may fail on purpose. Canary questions count
        until the first answer of the run: a server that does not answer them will not answer a step
        either.
        """
        canary, _ = NO_EPISODE
        if call.asker.label == canary:
            return not self._is_answered
        return call.asker.label not in NO_EPISODE

    def _check_context(self, call: PendingCall) -> None:
        """Raise ContextExceeded, and record a failed attempt, if the prompt is known to exceed the
        context.
        """
        try:
            self.context.check(call.request, call.size)
        except ContextExceeded as error:
            call.attempts_made = 1
            self._note(call, self._record(call, error.kind))
            raise ContextExceeded(f"{self._model.provider}/{self._model.name}: {error}") from None

    def _count_failure(self, error: ModelError) -> None:
        """Count a call that failed for good, and stop the run after too many consecutive failures.

        Otherwise requests that are all refused would be recorded as a series of decisions.
        """
        with self._lock:
            self._failures += 1
            count = self._failures

        if count >= self._settings.max_failures:
            failed = "a call failed for good with"
            if count > 1:
                failed = f"{count} calls in a row failed for good, the last with"

            raise ProviderError(
                f"{failed} {error.kind}: {error}; fix it or wait, then run the same command again"
                " to resume (--max-failures, --max-retries and --max-wait-s set when a run gives"
                " up)"
            ) from error

    def _attempt(self, call: PendingCall) -> Reply:
        """Make one attempt: reserve, wait for a slot, call, and record.

        However the attempt ends, the limiter, the budget and the log are each notified exactly
        once.
        """
        if self._unrecorded is not None:  # another reply would be paid for and then lost
            raise StoreError(str(self._unrecorded)) from self._unrecorded

        call.asker.fence()
        self._log.check_room()
        attempts = 1 + self._settings.max_retries

        def name_pause() -> None:
            pause_s = self._limiter.pause_s
            if pause_s >= _SHOWN_PAUSE_S:
                words = self._throttled_by
                call.notify("rate_limited", pause_s, call.attempts_made, attempts, words)

        reservation = self._budget.reserve(
            call.request, lambda: call.notify("budget", 0.0, call.attempts_made, attempts, "")
        )
        made_before = call.attempts_made

        def settle(error: BaseException) -> None:
            self._fail(call, reservation, error, was_sent=call.attempts_made > made_before)

        with undone_on_error(settle), self._limiter.slot(name_pause) as slot:
            # the episode may have changed hands during the wait for budget and slot
            call.asker.fence()
            reply = self._send(call, slot)

        self._keep(call, reservation, reply)
        return reply

    def _send(self, call: PendingCall, slot: CallSlot) -> Reply:
        """Send the request once, and report the outcome to the limiter and the context."""
        call.attempts_made += 1
        self.sent += 1
        began = time.perf_counter()

        try:
            reply = sound(self._model.reply(call.request), self._without_secrets)
        except ContextExceeded as error:
            self.context.note_refusal(call.request, error)
            raise self.context.explain_refusal(call.request, error) from None
        except ModelError as error:
            self.notices.tell_of_timeout(error)
            if error.kind in _THROTTLING:
                pause_s = error.retry_after_s
                self._throttled_by = str(error)
                slot.is_throttled = True
                slot.retry_after_s = None
                # A call never waits longer than its limit. If the provider requests a longer pause,
                # the call fails at once and other calls need not wait.
                if pause_s is not None and pause_s <= self._settings.max_wait_s:
                    slot.retry_after_s = pause_s

            raise
        finally:
            call.latency_s = time.perf_counter() - began

        slot.is_answered = True
        self.notices.tell_of_cut(call.request, reply)
        self.context.note_count(call.request, reply.usage, call.size)
        if self.context.context is None and not self._was_looked_up_again:
            self._was_looked_up_again = True
            # a server that loads models on demand reports the context only after the first call
            self.look_up_context()
            if self.context.cuts_prompts:
                self.context.check(
                    call.request, call.size
                )  # the server may have answered a truncated prompt

        return reply

    def _without_secrets(self, text: str) -> str:
        # A server may echo the key that it received.
        return hide_keys(text, self._model.secrets())

    def _fail(
        self, call: PendingCall, reservation: Reservation, error: BaseException, was_sent: bool
    ) -> None:
        """Settle and record an attempt that raised `error`."""
        if was_sent and isinstance(error, ModelError):
            held_usd = 0.0
            if error.may_be_billed:
                held_usd = self._budget.hold(reservation)
            else:
                self._budget.release(reservation)

            self._note(call, self._record(call, error.kind, held_usd=held_usd))
            self._is_reached = self._is_reached or error.kind not in ("connection", "timeout")
        elif was_sent and isinstance(error, ProviderError):
            self._budget.release(reservation)
            self._note(call, self._record(call, REFUSED))
        elif was_sent:  # a defect in the adapter: the call may have been billed
            self._budget.hold(reservation)
        else:  # the run ended while the call waited for a slot
            self._budget.release(reservation)

    def _is_known(self, error: ModelError) -> bool:
        """Return whether the server has worked in this run. For a connection error this means that
        it was reached; for any other error, that it has replied.
        """
        return self._is_reached if error.kind == "connection" else self._is_answered

    def _check_first_contact(self, call: PendingCall, error: ModelError) -> None:
        """Raise ProviderError if the server has never worked in this run, and the failure suggests
        that it does not exist or is the wrong server.

        Each such response may be billed, so the client gives up sooner than with a server that has
        worked before. Calls of the tool protocol probe are exempt, since some protocols are
        expected to fail.
        """
        contacts = first_contacts(error)
        if contacts is None or self._is_known(error):
            return

        if error.kind == "connection":
            where = ""
            if self._model.endpoint not in str(error):
                where = f"can't reach {self._model.endpoint}: "

            raise ProviderError(
                f"{where}{error}; check the address (--base-url) and the network, then run it again"
            ) from error

        is_other = isinstance(error, OtherServer)
        if is_other or (call.attempts_made >= contacts and self._counts(call)):
            raise ProviderError(
                f"{error}; it has not replied to any call of this run: check the address"
                " (--base-url), the provider and the name in --model, then run it again"
            ) from error

    def _keep(self, call: PendingCall, reservation: Reservation, reply: Reply) -> None:
        """Settle and record an attempt that was answered."""
        cost_usd = None
        held_usd = 0.0
        if reply.usage == Usage():  # a server that does not count tokens may bill the call anyway
            held_usd = self._budget.hold(reservation)
        else:
            cost_usd = self._budget.settle(reservation, reply.usage)

        outcome = BATCHED if call.is_batched else ANSWERED
        record = self._record(call, outcome, reply, cost_usd, held_usd)
        entry = None
        if call.is_cached and self._is_shared(reply):
            entry = CacheEntry(call.key, self._model.provider, self._model.name, reply, record.at)
        else:
            # no cache stores the reply, so the log itself stores it for a resumed run
            record = structs.replace(record, reply=reply)

        try:
            # the replies of a batch are flushed together, before any of them is used
            self._log.record(record, entry, durable=not call.is_batched)
        except StoreError as error:
            self._unrecorded = error
            raise

        call.asker.watch(call.request, record, reply)

    def _is_shared(self, reply: Reply) -> bool:
        """Return whether a reply may be reused for the same request. It may not if a different
        model wrote it.
        """
        return is_cacheable(reply) and not is_other_model(self._model.name, reply.served_by)

    def _note(self, call: PendingCall, record: CallRecord, reply: Reply | None = None) -> None:
        """Record an attempt that is not paid for. The record is durable if the attempt may be
        billed anyway.
        """
        self._log.record(record, durable=record.held_usd > 0)
        call.asker.watch(call.request, record, reply)

    def _record(
        self,
        call: PendingCall,
        outcome: str,
        reply: Reply | None = None,
        cost_usd: float | None = None,
        held_usd: float = 0.0,
    ) -> CallRecord:
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
        usage = None
        served_by = ""
        if reply is not None:
            usage = reply.usage
            served_by = reply.served_by

        return CallRecord(
            at=now.replace("+00:00", "Z"),
            episode=call.asker.label,
            step=call.asker.step,
            opening=call.asker.opening,
            key=call.position[1],
            outcome=outcome,
            attempt=call.attempts_made,
            latency_s=round(call.latency_s, 6),
            usage=usage,
            cost_usd=cost_usd,
            held_usd=held_usd,
            model=self.name,
            served_by=served_by,
        )


@dataclass(frozen=True, slots=True)
class EpisodeModel:
    """Model for one opening of an episode. Its steps run one after another, never in parallel."""

    client: ModelClient
    asker: CallSource
    notify: Notify

    def beside(self, client: ModelClient) -> EpisodeModel:
        """Return a model that makes calls for the same episode and step with another client."""
        return EpisodeModel(client, self.asker, self.notify)

    def begin_step(self, step: int) -> None:
        """Set the step to which the next calls belong."""
        self.asker.step = step

    def reply(self, request: ModelRequest) -> Reply:
        """Answer a request. Raises as `ModelClient.for_episode` does."""
        return self.client.reply(request, self.asker, self.notify)
