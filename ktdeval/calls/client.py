"""Client of a model behind a network: cache, budget, limit, one attempt, durable record, and retries around these."""

from __future__ import annotations

import datetime
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

from msgspec import structs

from ktdeval.calls.budget import Budget, Reservation
from ktdeval.calls.call_log import CallLog, CallPosition
from ktdeval.calls.limiter import ProviderLimiter, Slot
from ktdeval.calls.prices import Price
from ktdeval.calls.record import (
    ANSWERED,
    CACHED,
    KEY_DIGITS,
    NO_EPISODE,
    REFUSED,
    CacheEntry,
    CallRecord,
    is_cacheable,
    request_key,
)
from ktdeval.calls.retry import Notify, RetryPolicy
from ktdeval.calls.stop import StopSignal
from ktdeval.errors import SHORTEST_SECRET, ModelError, ProviderError, RunStop, StoreError
from ktdeval.harness.messages import ModelRequest, RemoteModel, Reply, Usage, sound

_THROTTLING = frozenset({"rate_limited", "overloaded"})  #: Failures that say that the provider is asked too much at once
_SHOWN_PAUSE_S = 0.5  #: Shorter pauses are not reported to observers
_FIRST_CONTACTS = 3  #: Connections that may fail before the first answer of a run: an address that was never reached is wrong


@lru_cache
def _spelt(secret: str) -> re.Pattern[str]:
    """Return the pattern of a secret as text, and as JSON in a text may spell it."""
    return re.compile("".join(rf"(?:\\?{re.escape(letter)}|\\u00(?i:{ord(letter):02x}))" for letter in secret))


@dataclass(frozen=True)
class ClientSettings:
    """Options of a run that its model calls obey; see the fields of `RunConfig` with these names."""

    concurrency: int = 1
    call_gap_s: float = 0.0  #: shortest time between the starts of two calls
    max_retries: int = 12  #: most attempts after the first
    max_wait_s: float = 3600.0  #: most waiting between all attempts of a call together
    max_failures: int = 3  #: calls in a row that may fail for good before the run stops
    max_cost: float | None = None  #: US dollars, over all sessions of a run; None sets no limit
    max_tokens: int | None = None  #: tokens in and out, likewise
    backoff_s: float = 1.0  #: upper end of the first random wait after a failed attempt; each later one is twice the one before


@dataclass(slots=True)
class _Asker:
    """Who asks: an episode at one of its openings, by step; or a check of the run, which has neither."""

    label: str
    opening: int = 0
    step: int | None = None


@dataclass(slots=True)
class _Call:
    """Call under way: its request, who asks, its key, and the number of attempts."""

    request: ModelRequest
    asker: _Asker
    key: str
    notify: Notify
    is_cached: bool
    attempts_made: int = 0
    latency_s: float = 0.0

    @property
    def position(self) -> CallPosition:
        """Position in the call log."""
        return self.asker.label, self.key[:KEY_DIGITS]


class _Flight:
    """Call under way whose reply others with the same request wait for."""

    def __init__(self) -> None:
        self.landed = threading.Event()
        self.reply: Reply | None = None


class ModelClient:
    """All calls of a run to one remote model. Thread-safe.

    A call is answered from the cache where its reply is known. Otherwise, in this order: money and tokens are reserved, a slot of
    the provider's is waited for, one attempt is made, and its reply is recorded durably before anyone sees it; where the attempt
    failed for a reason that may pass, it waits and does the same again. `stop` receives each RunStop that passes through here,
    so that all episodes stop. The log stays the caller's to close, when no call is under way.

    Raises ConfigError for a limit of cost without a price, StoreError where the log can't be read; after one that comes later,
    nothing is asked any more.
    """

    def __init__(self, model: RemoteModel, settings: ClientSettings, price: Price | None, log: CallLog, stop: StopSignal) -> None:
        self._model, self._settings, self._log, self._stop = model, settings, log, stop
        self._retries = RetryPolicy(settings.max_retries, settings.max_wait_s, settings.backoff_s)
        resumed = log.resume(price)
        self._budget = Budget((settings.max_cost, settings.max_tokens), price, resumed.spent, stop)
        self._limiter = ProviderLimiter(settings.concurrency, settings.call_gap_s, stop.check)
        self._lock = threading.Lock()
        self._flights: dict[str, _Flight] = {}
        self._failures = 0
        self.sent = 0  #: attempts made by this client
        self._kept = resumed.kept
        self._is_reached = resumed.was_answered
        self._unrecorded: StoreError | None = None

    def for_episode(self, episode_id: str, notify: Notify = lambda *_: None) -> EpisodeModel:
        """Return the model as one episode (or `check`) sees it; `notify` is called when a call waits (`budget`: for others).

        Its `reply` raises ModelError when the call failed for good, and RunStop or KeyboardInterrupt when the run is over.
        """
        return EpisodeModel(self, _Asker(episode_id, self._log.new_opening(episode_id)), notify)

    def ask_fresh(self, request: ModelRequest, label: str, notify: Notify = lambda *_: None) -> Reply:
        """Ask the provider, whatever the cache holds; errors as above. The reply goes to this run's log: a resumed run has it."""
        call = _Call(request, _Asker(label), request_key(self._model, request), notify, is_cached=False)
        kept = self._kept.get(call.position)
        return self._stopping(lambda: self._ask(call)) if kept is None else self._reuse(call, kept, time.perf_counter())

    def reply(self, request: ModelRequest, asker: _Asker, notify: Notify) -> Reply:
        """Answer from the cache or by the provider; see `for_episode`."""
        call = _Call(request, replace(asker), request_key(self._model, request), notify, is_cached=True)
        return self._stopping(lambda: self._look_up(call))

    def _stopping(self, ask: Callable[[], Reply]) -> Reply:
        try:
            self._stop.check()
            return ask()
        except RunStop as error:
            self._stop.stop(error)
            raise

    def _look_up(self, call: _Call) -> Reply:
        """Return the reply from the cache, from a call under way with the same request, or from the provider."""
        while True:
            began = time.perf_counter()
            with self._lock:
                flight = self._flights.get(call.key)
                if is_mine := flight is None:
                    flight = self._flights[call.key] = _Flight()
            if is_mine:
                return self._fly(call, flight, began)
            flight.landed.wait()  # whoever makes that call stops waiting when the run is over
            if flight.reply is not None:
                return self._reuse(call, flight.reply, began)
            self._stop.check()

    def _fly(self, call: _Call, flight: _Flight, began: float) -> Reply:
        """Look into the cache, and ask the provider where it has no reply, while others with the same key wait."""
        try:
            if (kept := self._kept.get(call.position)) is not None:
                return self._reuse(call, kept, began)
            if (cached := self._log.reply(call.key)) is not None:
                flight.reply = cached
                return self._reuse(call, cached, began)
            reply = self._ask(call)
            flight.reply = reply if is_cacheable(reply) else None
            return reply
        finally:
            with self._lock:
                del self._flights[call.key]
            flight.landed.set()

    def _reuse(self, call: _Call, reply: Reply, began: float) -> Reply:
        call.attempts_made, call.latency_s = 1, time.perf_counter() - began
        self._log.record(self._record(call, CACHED, reply, 0.0), durable=False)
        return reply

    def _ask(self, call: _Call) -> Reply:
        try:
            reply = self._retries.run(lambda: self._attempt(call), self._stop.wait, call.notify)
        except ModelError as error:
            self._check_reach(error, is_last=True)
            if call.asker.label not in NO_EPISODE:  # a check may fail on purpose, to find out what the model takes
                self._count_failure(error)
            raise
        with self._lock:
            self._failures = 0
        self._is_reached = True
        return reply

    def _count_failure(self, error: ModelError) -> None:
        """Count a call that failed for good. Too many in a row stop the run before it records them as decisions."""
        with self._lock:
            self._failures += 1
            count = self._failures
        if count >= self._settings.max_failures:
            failed = f"{count} calls in a row failed for good, the last with" if count > 1 else "a call failed for good with"
            raise ProviderError(
                f"{failed} {error.kind}: {error}; fix it or wait, then run the same command again to resume "
                "(--max-failures, --max-retries and --max-wait-s say how patient to be)"
            ) from error

    def _attempt(self, call: _Call) -> Reply:
        """Reserve, wait for a slot, ask, and record: limiter, budget and log each receive the end of the attempt once."""
        if self._unrecorded is not None:  # whatever is paid now would be lost
            raise StoreError(str(self._unrecorded)) from self._unrecorded
        self._log.check_room()
        attempts = 1 + self._settings.max_retries

        def name_pause() -> None:
            if (pause_s := self._limiter.pause_s) >= _SHOWN_PAUSE_S:
                call.notify("rate_limited", pause_s, call.attempts_made, attempts)

        reservation = self._budget.reserve(call.request, lambda: call.notify("budget", 0.0, call.attempts_made, attempts))
        made_before = call.attempts_made
        try:
            with self._limiter.slot(name_pause) as slot:
                reply = self._send(call, slot)
        except BaseException as error:
            self._fail(call, reservation, error, was_sent=call.attempts_made > made_before)
            raise
        self._keep(call, reservation, reply)
        return reply

    def _send(self, call: _Call, slot: Slot) -> Reply:
        call.attempts_made += 1
        self.sent += 1
        began = time.perf_counter()
        try:
            reply = sound(self._model.reply(call.request), self._without_secrets)
        except ModelError as error:
            if error.kind in _THROTTLING:
                slot.is_throttled, pause_s = True, error.retry_after_s
                # Nobody would wait longer than a call may: such calls fail, and end the run.
                slot.retry_after_s = pause_s if pause_s is not None and pause_s <= self._settings.max_wait_s else None
            raise
        finally:
            call.latency_s = time.perf_counter() - began
        slot.is_answered = True
        return reply

    def _without_secrets(self, text: str) -> str:
        for secret in self._model.secrets():  # a server may echo what it was sent
            if len(secret) >= SHORTEST_SECRET:
                text = _spelt(secret).sub("[key]", text)
        return text

    def _fail(self, call: _Call, reservation: Reservation, error: BaseException, was_sent: bool) -> None:
        if was_sent and isinstance(error, ModelError):
            held_usd = self._budget.hold(reservation) if error.may_be_billed else self._budget.release(reservation)
            self._log.record(self._record(call, error.kind, held_usd=held_usd), durable=held_usd > 0)
            self._check_reach(error, is_last=call.attempts_made >= _FIRST_CONTACTS)
        elif was_sent and isinstance(error, ProviderError):
            self._budget.release(reservation)
            self._log.record(self._record(call, REFUSED), durable=False)
        elif was_sent:  # a defect of the adapter, after which nobody knows what was billed
            self._budget.hold(reservation)
        else:  # the run was over before there was a slot
            self._budget.release(reservation)

    def _check_reach(self, error: ModelError, is_last: bool) -> None:
        """Raise ProviderError for an address that was never reached in this run, at the last attempt that is made of a call."""
        if error.kind not in ("connection", "timeout"):
            self._is_reached = True
        elif error.kind == "connection" and is_last and not self._is_reached:
            where = "" if self._model.endpoint in str(error) else f"can't reach {self._model.endpoint}: "
            raise ProviderError(f"{where}{error}; check the address (--base-url) and the network, then run it again") from error

    def _keep(self, call: _Call, reservation: Reservation, reply: Reply) -> None:
        cost_usd, held_usd = None, 0.0
        if reply.usage == Usage():  # a server that counts nothing may bill all the same
            held_usd = self._budget.hold(reservation)
        else:
            cost_usd = self._budget.settle(reservation, reply.usage)
        record, entry = self._record(call, ANSWERED, reply, cost_usd, held_usd), None
        if call.is_cached and is_cacheable(reply):
            entry = CacheEntry(call.key, self._model.provider, self._model.name, reply, record.at)
        else:
            record = structs.replace(record, reply=reply)
        try:
            self._log.record(record, entry)
        except StoreError as error:
            self._unrecorded = error
            raise

    def _record(
        self, call: _Call, outcome: str, reply: Reply | None = None, cost_usd: float | None = None, held_usd: float = 0.0
    ) -> CallRecord:
        return CallRecord(
            at=datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            episode=call.asker.label,
            step=call.asker.step,
            opening=call.asker.opening,
            key=call.position[1],
            outcome=outcome,
            attempt=call.attempts_made,
            latency_s=round(call.latency_s, 6),
            usage=None if reply is None else reply.usage,
            cost_usd=cost_usd,
            held_usd=held_usd,
            served_by="" if reply is None else reply.served_by,
        )


@dataclass(frozen=True, slots=True)
class EpisodeModel:
    """Model as one opening of an episode asks it. An episode is sequential: its steps begin one after another."""

    client: ModelClient
    asker: _Asker
    notify: Notify

    def begin_step(self, step: int) -> None:
        """Note the step whose calls come next."""
        self.asker.step = step

    def reply(self, request: ModelRequest) -> Reply:
        """Answer a request; errors as of `ModelClient.for_episode`."""
        return self.client.reply(request, self.asker, self.notify)
