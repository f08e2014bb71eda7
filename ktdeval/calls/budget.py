"""Budget of a run in money and tokens. An amount is reserved before each call and settled
afterwards.
"""

from __future__ import annotations

import contextlib
import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from ktdeval.calls.concurrency_limit import FairQueue
from ktdeval.calls.costs.prices import Price
from ktdeval.calls.records.record import Spent
from ktdeval.calls.stop_flag import StopSignal
from ktdeval.errors import BudgetError, ConfigError
from ktdeval.harness.call_params import MAX_REPLY_TOKENS
from ktdeval.harness.chat_messages import ModelRequest, Usage
from ktdeval.values.documents.strict_json import JsonValue, dumps_canonical

_TOKENS_A_MESSAGE = 16
_TOKENS_FOR_TOOLS = 1000
_BATCH = "the batch"  #: name in error messages for an item that is a batch
#: seconds after which a call that waits for other processes' calls tries again
_LOOK_AGAIN_S = 0.1
_ROUNDING = 1 + 1e-9  #: factor that raises a bound so that sums of rounded figures stay below it


def max_request_tokens(request: ModelRequest) -> tuple[int, int]:
    """Return upper bounds on the tokens of a request's prompt and on the tokens of its reply.

    In every tokenizer with a byte alphabet or byte fallback, a token covers at least one byte of
    UTF-8. Providers add a frame around each message, and convert tools to their own form.
    """
    size = 0
    for message in request.messages:
        size += _TOKENS_A_MESSAGE + _bytes(message.content, message.tool_call_id or "")
        for call in message.tool_calls:
            size += _TOKENS_A_MESSAGE + _bytes(call.id, call.name, call.arguments)

    definitions: list[JsonValue] = []
    if request.tools:
        tools: list[JsonValue] = [
            [tool.name, tool.description, tool.parameters] for tool in request.tools
        ]
        definitions.append(tools)
    if request.response_schema is not None:
        definitions.append(request.response_schema)

    for definition in definitions:
        # doubled because canonical JSON has no indentation, while a provider's form may be indented
        size += 2 * _bytes(dumps_canonical(definition)) + _TOKENS_FOR_TOOLS

    # Some providers count reasoning against the reply's limit, others separately.
    limit = request.params.max_output_tokens or MAX_REPLY_TOKENS
    reply = limit + (request.params.reasoning_tokens or 0)
    return size, reply


def _bytes(*texts: str) -> int:
    """Return the total length of strings in UTF-8 bytes."""
    size = 0
    for text in texts:
        if text.isascii():  # encoding is not needed here, and takes time for long prompts
            size += len(text)
        else:
            size += len(text.encode("utf-8", "surrogatepass"))

    return size


def _money(dollars: float) -> str:
    """Return US dollars in cents, with more digits if there are fractions of a cent."""
    if dollars == round(dollars, 2):
        return f"{dollars:.2f}"
    return f"{dollars:.6g}"


@dataclass(frozen=True, slots=True)
class BudgetAmount:
    """Amount in US dollars and tokens."""

    usd: float
    tokens: int

    def __add__(self, other: BudgetAmount) -> BudgetAmount:
        return BudgetAmount(self.usd + other.usd, self.tokens + other.tokens)

    def __sub__(self, other: BudgetAmount) -> BudgetAmount:
        return BudgetAmount(self.usd - other.usd, self.tokens - other.tokens)


NOTHING = BudgetAmount(0.0, 0)


@dataclass(slots=True, eq=False)
class Reservation:
    """Part of the budget that is reserved for one call until the call ends. It can be ended only
    once.

    `bound` and `most` are 0 in a run without limits.
    """

    request: ModelRequest
    price: Price | None = None  #: price at which the call is billed; None if unknown
    bound: tuple[int, int] = (0, 0)  #: maximum tokens in the prompt and in the reply
    most: BudgetAmount = NOTHING  #: maximum amount that the call may use
    is_open: bool = True
    #: True if the amount was drawn from an allowance shared by several processes
    is_drawn: bool = False


Drawing = Literal["drawn", "later", "never"]
"""Answer to a call that asks for budget. `drawn`: it may be made; `later`: calls under way, of any
process, may give back some of what they drew; `never`: the limits leave less than it may use.
"""


class Allowance(Protocol):
    """Budget shared by several processes. Before each call, the maximum amount that it may use is
    drawn; afterwards the amount actually used is settled.
    """

    def draw(self, most: BudgetAmount) -> Drawing:
        """Draw the maximum amount that a call may use."""

    def settle(self, drawn: BudgetAmount, used: BudgetAmount) -> None:
        """End a call that drew an amount, and settle the amount actually used, which may be larger.
        Raises no errors, since the caller has a paid reply to record.
        """

    def find_needed(self, most: BudgetAmount) -> Mapping[str, float]:
        """Return the limits that leave less than `most`, keyed by option name. Each comes with the
        smallest value of that limit that would leave `most`.
        """


@dataclass(slots=True)
class _BudgetUse:
    """Amounts that a run has used and reserved, over all its models."""

    spent: BudgetAmount
    possibly: BudgetAmount
    reserved: BudgetAmount = NOTHING
    out: int = 0  #: number of calls with a reservation
    stretch: float = 1.0  #: factor by which bounds are raised
    allowance: Allowance | None = None


class Budget:
    """Limits of a run in US dollars and tokens, over all its sessions. None means no limit.

    A call is made only if its maximum cost fits within the limit, together with what was already
    spent and what other calls under way could still cost. Spending therefore stays below the limit
    unless a reply uses more tokens than its bound, since some servers let a model reason beyond its
    limit. In that case later bounds are raised by the same factor.

    `spent` is the amount used by earlier sessions. Raises ConfigError if there is a cost limit but
    no price.
    """

    def __init__(
        self,
        limits: tuple[float | None, int | None],
        price: Price | None,
        spent: Spent,
        stop: StopSignal,
    ) -> None:
        max_cost, max_tokens = limits
        _check_price(max_cost, price)
        self._limits = limits
        self._price = price
        self._stop = stop
        self._has_limits = max_cost is not None or max_tokens is not None
        self._queue = FairQueue(stop.check)  # the queue's lock guards all fields below
        tokens = spent.input_tokens + spent.output_tokens
        self._use = _BudgetUse(
            BudgetAmount(spent.cost_usd, tokens), BudgetAmount(spent.possibly_usd, 0)
        )

    @property
    def _is_bounded(self) -> bool:
        """Return whether calls reserve the maximum amount that they may use."""
        return self._has_limits or self._use.allowance is not None

    def share(self, allowance: Allowance) -> None:
        """Draw all amounts from an allowance. To be called before the first call is made."""
        with self._queue.lock:
            self._use.allowance = allowance

    def beside(self, price: Price | None, spent_usd: float = 0.0) -> Budget:
        """Return the same budget for another model of the run, which has its own price. Limits, use
        and reservations are shared. `spent_usd` is the additional amount spent by earlier sessions.
        """
        _check_price(self._limits[0], price)
        other = copy.copy(self)
        other._price = price
        with self._queue.lock:
            self._use.spent += BudgetAmount(spent_usd, 0)

        return other

    def reserve(
        self, request: ModelRequest, on_wait: Callable[[], None] | None = None
    ) -> Reservation:
        """Reserve the maximum amount that a call may use.

        If the amount does not fit alongside the calls under way, including calls of other
        processes, call `on_wait` once and wait. Raises KeyboardInterrupt or RunStop if the run was
        stopped, and BudgetError if the amount would not fit even without other calls.
        """
        reservation = Reservation(request, self._price)
        if self._is_bounded:
            reservation.bound = max_request_tokens(request)
            self._queue.wait(lambda: self._take([reservation], "the next call"), on_wait)
        else:
            self._stop.check()

        return reservation

    def reserve_batch(
        self, requests: Sequence[ModelRequest], price: Price | None, *, is_sent: bool = False
    ) -> list[Reservation]:
        """Reserve the maximum amounts for all calls of a batch, at the batch price. Either all
        amounts are reserved or nothing is. If the batch was already submitted, the amounts are
        reserved even if the budget does not cover them. Raises as `reserve` does.
        """
        reservations = [Reservation(request, price) for request in requests]
        if not self._is_bounded:
            self._stop.check()
            return reservations

        for reservation in reservations:
            reservation.bound = max_request_tokens(reservation.request)

        if is_sent:
            with self._queue.lock:
                for reservation in reservations:
                    self._hold_back(reservation, self._most(reservation))
        else:
            self._queue.wait(lambda: self._take(reservations, _BATCH))

        return reservations

    def settle(self, reservation: Reservation, usage: Usage) -> float | None:
        """End the reservation of an answered call. Return the call's cost in US dollars; None
        without a price.
        """
        cost = None
        if reservation.price is not None:
            cost = reservation.price.call_cost(usage)

        with self._end_reservation(reservation) as is_first:
            if not is_first:
                return None

            used = BudgetAmount(cost or 0.0, usage.input_tokens + usage.output_tokens)
            self._use.spent += used
            self._settle_drawn(reservation, used)
            if self._is_bounded:
                reads, writes = reservation.bound
                self._use.stretch = max(
                    self._use.stretch,
                    usage.input_tokens / max(reads, 1),
                    usage.output_tokens / max(writes, 1),
                )

        return cost

    def hold(self, reservation: Reservation) -> float:
        """End the reservation of a call without a reply that may be billed.

        Returns what the call could cost in US dollars; 0 without a price.
        """
        if reservation.is_open and not self._is_bounded:
            reservation.bound = max_request_tokens(reservation.request)
            reservation.most = self._most(reservation)

        with self._end_reservation(reservation) as is_first:
            if not is_first:
                return 0.0

            self._use.possibly += reservation.most
            self._settle_drawn(reservation, reservation.most)

        return reservation.most.usd

    def release(self, reservation: Reservation) -> float:
        """End the reservation of a call that was not made or is not billed. Returns 0 dollars."""
        with self._end_reservation(reservation):
            self._settle_drawn(reservation, NOTHING)
            return 0.0

    def _settle_drawn(self, reservation: Reservation, used: BudgetAmount) -> None:
        """Settle the amount that a call used with the allowance from which it was drawn."""
        if reservation.is_drawn and self._use.allowance is not None:
            reservation.is_drawn = False
            self._use.allowance.settle(reservation.most, used)

    def _take(self, reservations: Sequence[Reservation], what: str) -> float:
        """Try to reserve amounts. Return 0 on success, the seconds until the next try if calls of
        other processes must end first, or infinity if other calls of this process must end first.
        `what` names the call or batch in errors.
        """
        mosts = [self._most(reservation) for reservation in reservations]
        asked = BudgetAmount(
            math.fsum(most.usd for most in mosts), sum(most.tokens for most in mosts)
        )
        problem = self._problem(asked, what)
        if problem is None and self._use.allowance is not None:
            drawing = self._use.allowance.draw(asked)
            for reservation in reservations:
                reservation.is_drawn = drawing == "drawn"

            if drawing == "later":
                return _LOOK_AGAIN_S
            if drawing == "never":
                problem = (
                    f"the budget shared by all workers can't cover {what}, which could cost up to"
                    f" {asked.usd:.4f} USD and take up to {asked.tokens} tokens (--max-cost,"
                    " --max-tokens)"
                )

        if problem is None:
            for reservation, most in zip(reservations, mosts, strict=True):
                self._hold_back(reservation, most)

            return 0.0

        # while a batch is submitted, no other call is under way that could free an amount
        if self._use.out == 0 or what == _BATCH:
            raise BudgetError(
                f"{problem}; raise it and run the same command again to resume",
                self._find_limits_to_raise(asked),
            )

        return math.inf

    def _hold_back(self, reservation: Reservation, most: BudgetAmount) -> None:
        """Reserve the maximum amount that one call may use."""
        reservation.most = most
        self._use.reserved += most
        self._use.out += 1

    def _most(self, reservation: Reservation) -> BudgetAmount:
        """Return the maximum amount that a call may use within its bounds."""
        reads, writes = (math.ceil(part * self._use.stretch) for part in reservation.bound)
        dollars = 0.0
        if reservation.price is not None:
            dollars = reservation.price.most(reads, writes) * _ROUNDING

        return BudgetAmount(dollars, reads + writes)

    def _problem(self, asked: BudgetAmount, what: str) -> str | None:
        """Return which limit another call or batch would exceed; None if it exceeds no limit."""
        max_cost, max_tokens = self._limits
        possibly = self._use.possibly
        used = self._use.spent + possibly
        whole = used + self._use.reserved + asked
        if max_cost is not None and whole.usd > max_cost:
            perhaps = f" ({possibly.usd:.4f} of it possibly)" if possibly.usd else ""
            return (
                f"--max-cost {_money(max_cost)} USD: {used.usd:.4f} spent{perhaps}, {what} may"
                f" cost up to {asked.usd:.4f}"
            )

        if max_tokens is not None and whole.tokens > max_tokens:
            return (
                f"--max-tokens {max_tokens}: {used.tokens} used, {what} may take up to"
                f" {asked.tokens}"
            )

        return None

    def _find_limits_to_raise(self, asked: BudgetAmount) -> dict[str, float]:
        """Return the limits that another call would exceed, each with the smallest value that would
        allow the call.
        """
        max_cost, max_tokens = self._limits
        needed: dict[str, float] = {}
        whole = self._use.spent + self._use.possibly + asked
        if max_cost is not None and whole.usd > max_cost:
            needed["max_cost"] = whole.usd
        if max_tokens is not None and whole.tokens > max_tokens:
            needed["max_tokens"] = whole.tokens
        if self._use.allowance is not None:
            needed.update(self._use.allowance.find_needed(asked))

        return needed

    @contextlib.contextmanager
    def _end_reservation(self, reservation: Reservation) -> Iterator[bool]:
        """Return a reservation to the budget, and yield whether it was still open."""
        with self._queue.lock:
            was_open = reservation.is_open
            reservation.is_open = False
            if was_open and self._is_bounded:
                self._use.out -= 1
                self._use.reserved -= reservation.most
                if self._use.out == 0:
                    # exactly 0, since differences of rounded figures could leave a remainder
                    self._use.reserved = NOTHING

            yield was_open
            if was_open:
                self._queue.wake_head()


def _check_price(max_cost: float | None, price: Price | None) -> None:
    """Raise ConfigError if there is a cost limit but no price."""
    if max_cost is not None and price is None:
        raise ConfigError(
            "--max-cost: no price is known for this model; give it in US dollars per million"
            " tokens, such as --price input=2,output=8"
        )
