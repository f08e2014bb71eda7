"""Budget of a run: money and tokens, reserved before a call and settled after it."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ktdeval.calls.limiter import FairQueue
from ktdeval.calls.prices import Price
from ktdeval.calls.record import Spent
from ktdeval.calls.stop import StopSignal
from ktdeval.errors import BudgetError, ConfigError
from ktdeval.harness.messages import ModelRequest, Usage
from ktdeval.jsonio import dumps_canonical

_TOKENS_A_MESSAGE = 16
_TOKENS_FOR_TOOLS = 1000
_ROUNDING = 1 + 1e-9  #: Factor that raises a bound, so that sums of rounded figures stay below it


def most_tokens(request: ModelRequest) -> tuple[int, int]:
    """Upper bounds of the tokens that a request takes: of its prompt and of its reply.

    A token stands for at least one byte of UTF-8 in every tokenizer with a byte alphabet or byte fallback. To that comes what
    providers write around it: the frame of each message, and tools, which they word and indent in their own way.
    """
    size = 0
    for message in request.messages:
        size += _TOKENS_A_MESSAGE + _bytes(message.content, message.tool_call_id or "")
        size += sum(_TOKENS_A_MESSAGE + _bytes(call.id, call.name, call.arguments) for call in message.tool_calls)
    tools = [[tool.name, tool.description, tool.parameters] for tool in request.tools]
    for definition in (tools or None, request.response_schema):
        if definition is not None:
            size += 2 * _bytes(dumps_canonical(definition)) + _TOKENS_FOR_TOOLS
    # Some providers count reasoning against the reply's limit, others separately.
    return size, request.params.max_output_tokens + (request.params.reasoning_tokens or 0)


def _bytes(*texts: str) -> int:
    return sum(len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass")) for text in texts)


def _money(dollars: float) -> str:
    return f"{dollars:.2f}" if dollars == round(dollars, 2) else f"{dollars:.6g}"


@dataclass(slots=True, eq=False)
class Reservation:
    """Share of the budget of one call, set aside until it has ended. The first of its ends counts, later ones do nothing.

    `bound`, `tokens` and `dollars` are 0 where the run has no limits to keep.
    """

    request: ModelRequest
    bound: tuple[int, int] = (0, 0)  #: most tokens of its prompt and of its reply
    tokens: int = 0
    dollars: float = 0.0
    is_open: bool = True


class Budget:
    """Limits of a run in US dollars and tokens over all its sessions (None sets none), kept whatever its calls turn out to cost;
    counts from what its earlier sessions have `spent`.

    A call is made only when everything spent, everything that other calls under way may still cost and the most that this one
    may cost fit together. So spending stays below the limit as long as no reply takes more tokens than its bound; when one does,
    as from a server that lets a model think beyond the limit it was given, later bounds are stretched by as much.
    Raises ConfigError for a limit of cost without a price.
    """

    def __init__(self, limits: tuple[float | None, int | None], price: Price | None, spent: Spent, stop: StopSignal) -> None:
        max_cost, max_tokens = limits
        if max_cost is not None and price is None:
            raise ConfigError(
                "--max-cost: no price is known for this model; say what it costs in US dollars per million tokens, such as "
                "--price input=2,output=8"
            )
        self._limits, self._price, self._stop = limits, price, stop
        self._is_limited = max_cost is not None or max_tokens is not None
        self._queue = FairQueue(stop.check)
        self._spent_usd, self._possibly_usd = spent.cost_usd, spent.possibly_usd
        self._spent_tokens, self._possibly_tokens = spent.input_tokens + spent.output_tokens, 0
        self._reserved_usd, self._reserved_tokens = 0.0, 0
        self._out = 0
        self._stretch = 1.0

    def reserve(self, request: ModelRequest, on_wait: Callable[[], None] | None = None) -> Reservation:
        """Set aside the most that a call may use; waits (`on_wait` is called once) where it does not fit next to others under way.

        Raises KeyboardInterrupt or RunStop where the run was stopped, BudgetError where the call doesn't fit even alone.
        """
        reservation = Reservation(request)
        if self._is_limited:
            reservation.bound = most_tokens(request)
            self._queue.wait(lambda: self._take(reservation), on_wait)
        else:
            self._stop.check()
        return reservation

    def settle(self, reservation: Reservation, usage: Usage) -> float | None:
        """End a reservation whose call was answered with this usage; return its US dollars, None where no price is known."""
        cost = None if self._price is None else self._price.cost(usage)
        with self._ended(reservation) as is_first:
            if not is_first:
                return None
            self._spent_usd += cost or 0.0
            self._spent_tokens += usage.input_tokens + usage.output_tokens
            if self._is_limited:
                reads, writes = reservation.bound
                self._stretch = max(self._stretch, usage.input_tokens / max(reads, 1), usage.output_tokens / max(writes, 1))
        return cost

    def hold(self, reservation: Reservation) -> float:
        """End a reservation whose call was not answered but may be billed; return its US dollars, 0 without a price."""
        if reservation.is_open and not self._is_limited:
            reservation.tokens, reservation.dollars = self._most(most_tokens(reservation.request))
        with self._ended(reservation) as is_first:
            if not is_first:
                return 0.0
            self._possibly_usd += reservation.dollars
            self._possibly_tokens += reservation.tokens
        return reservation.dollars

    def release(self, reservation: Reservation) -> float:
        """End a reservation whose call was not made, or failed in a way that no provider bills: 0 US dollars."""
        with self._ended(reservation):
            return 0.0

    def _take(self, reservation: Reservation) -> float:
        tokens, dollars = self._most(reservation.bound)
        problem = self._problem(tokens, dollars)
        if problem is None:
            reservation.tokens, reservation.dollars = tokens, dollars
            self._reserved_tokens += tokens
            self._reserved_usd += dollars
            self._out += 1
            return 0.0
        if self._out == 0:
            raise BudgetError(f"{problem}; raise it and run the same command again to go on")
        return math.inf

    def _most(self, bound: tuple[int, int]) -> tuple[int, float]:
        """Tokens and US dollars that a call with these bounds may take."""
        reads, writes = (math.ceil(part * self._stretch) for part in bound)
        return reads + writes, 0.0 if self._price is None else self._price.most(reads, writes) * _ROUNDING

    def _problem(self, tokens: int, dollars: float) -> str | None:
        max_cost, max_tokens = self._limits
        spent = self._spent_usd + self._possibly_usd
        if max_cost is not None and spent + self._reserved_usd + dollars > max_cost:
            perhaps = f" ({self._possibly_usd:.4f} of it possibly)" if self._possibly_usd else ""
            return f"--max-cost {_money(max_cost)} USD: {spent:.4f} spent{perhaps}, the next call may cost up to {dollars:.4f}"
        used = self._spent_tokens + self._possibly_tokens
        if max_tokens is not None and used + self._reserved_tokens + tokens > max_tokens:
            return f"--max-tokens {max_tokens}: {used} used, the next call may take up to {tokens}"
        return None

    @contextlib.contextmanager
    def _ended(self, reservation: Reservation) -> Iterator[bool]:
        """Give back what was set aside, once; yields whether this is the first end."""
        with self._queue.lock:
            was_open, reservation.is_open = reservation.is_open, False
            if was_open and self._is_limited:
                self._out -= 1
                self._reserved_tokens -= reservation.tokens
                # Exactly nothing when nothing is out: sums of rounded figures would leave a trace.
                self._reserved_usd = self._reserved_usd - reservation.dollars if self._out else 0.0
            yield was_open
            if was_open:
                self._queue.changed()
