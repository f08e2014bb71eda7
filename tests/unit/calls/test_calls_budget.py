"""A run stays within its money, tokens and hours whatever its calls turn out to cost, and no call
waits for ever.
"""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from ktdeval.calls.budget import Budget, BudgetAmount, Drawing, Reservation, max_request_tokens
from ktdeval.calls.costs.prices import Price
from ktdeval.calls.records.record import Spent
from ktdeval.calls.stop_flag import StopSignal
from ktdeval.errors import BudgetError, ConfigError
from ktdeval.harness.chat_messages import (
    CallParams,
    Message,
    ModelRequest,
    ToolCall,
    ToolSpec,
    Usage,
)
from support.searching import examples
from support.threads import Waiter, in_threads

PRICE = Price(input=2.0, output=10.0, cache_read=0.5, cache_write=2.5)


def request(text: str = "What to buy?", max_output_tokens: int = 100) -> ModelRequest:
    return ModelRequest(
        (Message("user", text),), params=CallParams(max_output_tokens=max_output_tokens)
    )


ASKED = request()
MOST = PRICE.most(*max_request_tokens(ASKED))
MAX_TOKENS = sum(max_request_tokens(ASKED))


def budget(
    max_cost: float | None = None,
    max_tokens: int | None = None,
    price: Price | None = PRICE,
    spent: Spent | None = None,
    stop: StopSignal | None = None,
) -> Budget:
    return Budget((max_cost, max_tokens), price, spent or Spent(), stop or StopSignal())


def waiting(one: Budget, asked: ModelRequest = ASKED) -> Waiter:
    return Waiter(lambda waits: one.reserve(asked, waits))


def test_the_next_call_is_made_only_when_the_most_it_may_cost_is_left():
    limits = budget(max_cost=1.5 * MOST)
    limits.settle(limits.reserve(ASKED), Usage(28, 100))
    with pytest.raises(BudgetError) as caught:
        limits.reserve(ASKED)

    assert f"0.0011 spent, the next call may cost up to {MOST:.4f}" in str(caught.value)


def test_what_earlier_sessions_spent_counts():
    cost = r"--max-cost 2\.00 USD: 1\.9995 spent \(0\.0995 of it possibly\), the next call may cost"
    with pytest.raises(BudgetError, match=cost):
        budget(max_cost=2.0, spent=Spent(1.9, 0.0995)).reserve(ASKED)

    with pytest.raises(
        BudgetError,
        match=r"^--max-tokens 1000: 950 used, the next call may take up to 1\d\d; raise it and run",
    ):
        budget(max_tokens=1000, spent=Spent(0.0, 0.0, 900, 50)).reserve(ASKED)


def test_call_bound_counts_every_sent_byte_and_the_whole_reply():
    asked = ModelRequest(
        (
            Message("system", "你好" * 100),
            Message("assistant", "", (ToolCall("call_1", "look", '{"stock_id":"asset_0001"}'),)),
            Message("tool", "x" * 500, tool_call_id="call_1"),
        ),
        (ToolSpec("look", "Look at a stock.", {"type": "object"}),),
        params=CallParams(max_output_tokens=300, reasoning_tokens=200),
        response_schema={"type": "object"},
    )
    messages = 600 + len("call_1") + 500 + 3 * 16
    call = len('call_1look{"stock_id":"asset_0001"}') + 16
    tools = 2 * len('[["look","Look at a stock.",{"type":"object"}]]') + 1000
    schema = 2 * len('{"type":"object"}') + 1000

    assert max_request_tokens(asked) == (messages + call + tools + schema, 300 + 200)
    assert max_request_tokens(request("\ud800"))[0] >= 3  # a lone surrogate can be counted


def test_without_a_price_there_is_no_cost_and_no_limit_of_cost():
    limits = budget(price=None)
    assert limits.settle(limits.reserve(ASKED), Usage(10, 10)) is None
    assert limits.hold(limits.reserve(ASKED)) == 0.0

    with pytest.raises(ConfigError, match="--price input=2,output=8"):
        budget(max_cost=1.0, price=None)

    # a limit of nothing allows what costs nothing
    free = budget(max_cost=0.0, price=Price(0.0, 0.0))
    free.settle(free.reserve(ASKED), Usage(10, 10))
    with pytest.raises(BudgetError):
        budget(max_cost=0.0).reserve(ASKED)


def test_money_maybe_billed_stays_reserved_and_a_call_not_made_is_free():
    assert budget().hold(budget().reserve(ASKED)) == pytest.approx(MOST)  # without limits, too

    limits = budget(max_cost=2.5 * MOST)
    assert limits.hold(limits.reserve(ASKED)) == pytest.approx(MOST)

    limits.hold(limits.reserve(ASKED))

    with pytest.raises(BudgetError, match="possibly"):
        limits.reserve(ASKED)

    limits = budget(max_cost=1.01 * MOST, max_tokens=MAX_TOKENS)
    for _ in range(100):
        limits.release(limits.reserve(ASKED))

    reservation = limits.reserve(ASKED)
    limits.release(reservation)
    limits.hold(reservation)  # only the first end of a reservation counts

    assert limits.settle(reservation, Usage(*max_request_tokens(ASKED))) is None

    limits.reserve(ASKED)


def test_a_reply_beyond_its_bound_teaches_the_bounds_of_later_calls():
    limits = budget(max_tokens=10 * MAX_TOKENS)
    limits.settle(limits.reserve(ASKED), Usage(10, 500))  # five times what was allowed
    limits.hold(limits.reserve(ASKED))

    with pytest.raises(BudgetError, match=f"may take up to {5 * MAX_TOKENS};"):
        limits.reserve(ASKED)


Plan = list[tuple[ModelRequest, Usage, str]]
used = st.sampled_from([1.0, 1.0, 0.9, 0.3])
per_million = st.sampled_from([0.1, 2.0, 37.5])
prices = st.builds(
    Price, per_million, per_million, st.none() | per_million, st.none() | per_million
)
parts = st.sampled_from([0.02, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 1.2])
"""Limits are a part of the most that all calls together may use, so that most of them are met on
the way.
"""


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Calls of one thread, what their replies use (all of the bound, or any part of it), and how
    they end.
    """
    plan: Plan = []

    for _ in range(draw(st.integers(1, 12))):
        asked = request(
            "x" * draw(st.sampled_from([0, 500, 2000])), draw(st.sampled_from([1, 100, 500]))
        )
        inputs, outputs = (int(draw(used) * most) for most in max_request_tokens(asked))
        reads = draw(st.integers(0, inputs))
        usage = Usage(inputs, outputs, 0, reads, draw(st.integers(0, inputs - reads)))
        plan.append(
            (asked, usage, draw(st.sampled_from(["settle", "settle", "settle", "hold", "release"])))
        )

    return plan


@pytest.mark.parametrize(
    ("usage", "end"), [(Usage(1, 1), Reservation), (Usage(*max_request_tokens(ASKED)), BudgetError)]
)
def test_a_call_waits_for_others_and_is_made_when_they_cost_less(usage, end):
    limits = budget(max_cost=1.5 * MOST)
    first = limits.reserve(ASKED)
    waiter = waiting(limits)

    assert waiter.is_waiting

    limits.settle(first, usage)
    assert isinstance(waiter.outcome, end)


@pytest.mark.exhaustive
@examples(50)
@given(st.lists(plans(), min_size=1, max_size=5), prices, parts, parts)
def test_spending_stays_within_limits_and_no_call_waits_forever(
    plans_, price, cost_part, tokens_part
):
    dearest = max(price.input, price.cache_read or 0.0, price.cache_write or 0.0)
    bounds = [max_request_tokens(asked) for plan in plans_ for asked, _, _ in plan]
    max_cost = (
        cost_part * sum(reads * dearest + writes * price.output for reads, writes in bounds) / 1e6
    )
    max_tokens = 1 + int(tokens_part * sum(map(sum, bounds)))
    limits = budget(max_cost, max_tokens, price=price)
    settled = list[tuple[float, int]]()

    def play(number: int) -> None:
        for asked, usage, end in plans_[number]:
            try:
                reservation = limits.reserve(asked)
            except BudgetError:
                return

            if end == "settle":
                settled.append(
                    (
                        limits.settle(reservation, usage) or 0.0,
                        usage.input_tokens + usage.output_tokens,
                    )
                )
            else:
                limits.hold(reservation) if end == "hold" else limits.release(reservation)

    assert in_threads(len(plans_), play) == [None] * len(plans_)
    assert sum(cost for cost, _ in settled) <= max_cost
    assert sum(tokens for _, tokens in settled) <= max_tokens


@pytest.mark.parametrize("price", [0.1, 0.3, 0.7, 1.1, 2.3])
def test_cost_never_exceeds_its_reservation_even_by_rounding(price):
    limits = budget(max_cost=1.0, price=Price(price, price, price, price))
    for inputs in range(200):
        reservation = limits.reserve(request("x" * (inputs + 1)))
        reads, writes = reservation.bound
        assert (
            limits.settle(reservation, Usage(reads, writes, 0, reads // 3, reads // 5)) or 0.0
        ) <= reservation.most.usd


def test_a_call_that_ended_once_gives_nothing_back_when_it_ends_again():
    limits = budget(max_cost=2.5 * MOST)
    ended = limits.reserve(ASKED)
    under_way = limits.reserve(ASKED)

    assert (
        limits.release(ended),
        limits.release(ended),
        limits.hold(ended),
        limits.settle(ended, Usage(1, 1)),
    ) == (0.0, 0.0, 0.0, None)

    limits.reserve(ASKED)
    waiter = waiting(limits)

    assert waiter.is_waiting

    limits.release(under_way)
    assert isinstance(waiter.outcome, Reservation)


def test_small_calls_do_not_starve_a_large_one():
    """The line is served in order: what came first is looked at first, however small the next one
    is.
    """
    large = request("x" * 5000)
    small = request("x")
    limits = budget(max_tokens=sum(max_request_tokens(large)) + 10)
    running = limits.reserve(small)
    first = waiting(limits, large)
    second = waiting(limits, small)
    limits.release(running)

    assert isinstance(first.outcome, Reservation)
    assert second.is_waiting

    limits.release(first.outcome)
    assert isinstance(second.outcome, Reservation)


@pytest.mark.parametrize("reason", [None, BudgetError("over")])
def test_the_end_of_the_run_ends_all_waiting(reason):
    stop = StopSignal()
    limits = budget(max_cost=1.5 * MOST, stop=stop)
    running = limits.reserve(ASKED)
    waiters = [waiting(limits) for _ in range(8)]
    stop.interrupt() if reason is None else stop.stop(reason)
    kind = KeyboardInterrupt if reason is None else BudgetError

    assert [type(waiter.outcome) for waiter in waiters] == [kind] * 8

    limits.settle(running, Usage(1, 1))  # what was under way ends as ever

    with pytest.raises(kind):
        limits.reserve(ASKED)


def test_no_call_starts_after_the_hour_limit():
    now = [1000.0]
    stop = StopSignal(clock=lambda: now[0])
    stop.limit_hours(0.5)
    limits = budget(stop=stop)
    reservation = limits.reserve(ASKED)
    now[0] += 1800.0
    limits.settle(reservation, Usage(1, 1))  # what is under way is still paid for

    with pytest.raises(
        BudgetError,
        match=r"^--max-hours 0\.5: the time is over; raise it, or run the same command again to resume$",
    ):
        limits.reserve(ASKED)

    budget(stop=StopSignal(clock=lambda: 1e12)).reserve(ASKED)


# ---- a budget that processes share


#: What a call draws: its most, raised so that sums of rounded figures stay below it
DRAWN = BudgetAmount(MOST * (1 + 1e-9), MAX_TOKENS)


class Shared:
    """Allowance of several processes that answers as it is told; it keeps what it was asked."""

    def __init__(self, *drawings: Drawing) -> None:
        self.drawings = list(drawings)
        self.drawn: list[BudgetAmount] = []
        self.settled: list[tuple[BudgetAmount, BudgetAmount]] = []

    def draw(self, most: BudgetAmount) -> Drawing:
        self.drawn.append(most)
        return self.drawings.pop(0)

    def settle(self, drawn: BudgetAmount, used: BudgetAmount) -> None:
        self.settled.append((drawn, used))

    def find_needed(self, most: BudgetAmount) -> dict[str, float]:
        return {"max_cost": most.usd + 1.0}


def test_a_call_waits_while_calls_of_other_processes_may_give_back() -> None:
    shared = Shared("later", "drawn")
    one = budget(max_cost=1.0)
    one.share(shared)

    reservation = one.reserve(ASKED)
    cost = one.settle(reservation, Usage(20, 40))

    assert shared.drawn == [DRAWN, DRAWN]
    assert cost == pytest.approx((20 * 2.0 + 40 * 10.0) / 1e6)
    assert shared.settled == [(DRAWN, BudgetAmount(cost, 60))]


def test_a_call_that_was_not_made_gives_back_all_that_it_drew() -> None:
    shared = Shared("drawn")
    one = budget(max_cost=1.0)
    one.share(shared)

    one.release(one.reserve(ASKED))

    assert shared.settled == [(DRAWN, BudgetAmount(0.0, 0))]


def test_a_call_that_may_be_billed_uses_all_that_it_drew() -> None:
    shared = Shared("drawn")
    one = budget(max_cost=1.0)
    one.share(shared)

    assert one.hold(one.reserve(ASKED)) == DRAWN.usd

    assert shared.settled == [(DRAWN, DRAWN)]


def test_call_the_shared_budget_cannot_cover_is_refused_with_its_need() -> None:
    one = budget(max_cost=1.0)
    one.share(Shared("never"))

    with pytest.raises(BudgetError, match="the budget shared by all workers can't cover") as ended:
        one.reserve(ASKED)

    assert ended.value.needed == {"max_cost": DRAWN.usd + 1.0}
