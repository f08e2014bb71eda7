"""A run stays within its money, tokens and hours whatever its calls turn out to cost, and no call waits for ever."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings, strategies as st

from ktdeval.calls.budget import Budget, BudgetLimits, Reservation, most_tokens
from ktdeval.calls.prices import Price
from ktdeval.calls.record import Spent
from ktdeval.calls.stop import StopSignal
from ktdeval.errors import BudgetError, ConfigError
from ktdeval.harness.messages import CallParams, Message, ModelRequest, ToolCall, ToolSpec, Usage

PRICE = Price(input=2.0, output=10.0, cache_read=0.5, cache_write=2.5)


def request(text: str = "What to buy?", max_output_tokens: int = 100) -> ModelRequest:
    return ModelRequest((Message("user", text),), params=CallParams(max_output_tokens=max_output_tokens))


def budget(
    max_cost: float | None = None,
    max_tokens: int | None = None,
    price: Price | None = PRICE,
    spent: Spent | None = None,
    stop: StopSignal | None = None,
) -> Budget:
    limits = BudgetLimits(max_cost, max_tokens)
    return Budget(limits, price, spent or Spent(), stop or StopSignal())


def most_usd(asked: ModelRequest) -> float:
    return PRICE.most(*most_tokens(asked))


def parallel(work: Sequence[Callable[[], None]]) -> list[BaseException]:
    """Do all at once, in threads that must all end; what they raised."""
    raised: list[BaseException] = []

    def guarded(one: Callable[[], None]) -> None:
        try:
            one()
        except BaseException as error:  # noqa: BLE001 - what ended a thread is what the test looks at
            raised.append(error)

    threads = [threading.Thread(target=guarded, args=(one,), daemon=True) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads), "a call waits for ever"
    return raised


def waiting(one: Budget, asked: ModelRequest, outcome: list[object]) -> threading.Thread:
    """A thread that waits for its reservation; returns when it does."""
    waits = threading.Event()

    def reserve() -> None:
        try:
            outcome.append(one.reserve(asked, waits.set))
        except BaseException as error:  # noqa: BLE001 - likewise
            outcome.append(error)

    thread = threading.Thread(target=reserve, daemon=True)
    thread.start()
    assert waits.wait(10)
    return thread


# --- the bound


def test_the_bound_of_a_call_counts_every_byte_that_is_sent_and_the_whole_reply():
    tool = ToolSpec("look", "Look at a stock.", {"type": "object"})
    asked = ModelRequest(
        (
            Message("system", "你好" * 100),
            Message("assistant", "", (ToolCall("call_1", "look", '{"stock_id":"asset_0001"}'),)),
            Message("tool", "x" * 500, tool_call_id="call_1"),
        ),
        (tool,),
        params=CallParams(max_output_tokens=300, reasoning_tokens=200),
        response_schema={"type": "object"},
    )
    reads, writes = most_tokens(asked)
    assert (
        reads > 600 + 500 + len('call_1look{"stock_id":"asset_0001"}') + len("lookLook at a stock.") + len('{"type":"object"}') * 2
    )
    assert writes == 500


def test_a_lone_surrogate_in_a_message_can_be_counted():
    assert most_tokens(request("\ud800"))[0] >= 3


# --- money


def test_the_next_call_is_made_only_when_the_most_it_may_cost_is_left():
    asked = request()
    kept = budget(max_cost=1.5 * most_usd(asked))
    kept.settle(kept.reserve(asked), Usage(28, 100))
    most, left = most_usd(asked), 1.5 * most_usd(asked) - PRICE.cost(Usage(28, 100))
    assert most > left
    with pytest.raises(BudgetError) as caught:
        kept.reserve(asked)
    assert str(caught.value) == (
        f"--max-cost {1.5 * most:.6g} USD: 0.0011 spent, the next call may cost up to {most:.4f}; "
        "raise it and run the same command again to go on"
    )


def test_what_earlier_sessions_spent_counts():
    asked = request()
    with pytest.raises(
        BudgetError, match=r"--max-cost 2\.00 USD: 1\.9995 spent \(0\.0995 of it possibly\), the next call may cost"
    ):
        budget(max_cost=2.0, spent=Spent(1.9, 0.0995)).reserve(asked)
    with pytest.raises(BudgetError, match=r"^--max-tokens 1000: 950 used, the next call may take up to 1\d\d; raise it and run"):
        budget(max_tokens=1000, spent=Spent(0.0, 0.0, 900, 50)).reserve(asked)


def test_a_settled_call_costs_what_its_tokens_cost():
    kept = budget()
    usage = Usage(1_000_000, 100_000, 50_000, cache_read_tokens=500_000, cache_write_tokens=100_000)
    assert kept.settle(kept.reserve(request()), usage) == pytest.approx(0.4 * 2.0 + 0.5 * 0.5 + 0.1 * 2.5 + 0.1 * 10.0)


def test_without_a_price_there_is_no_cost_and_no_limit_of_cost():
    kept = budget(price=None)
    assert kept.settle(kept.reserve(request()), Usage(10, 10)) is None
    assert kept.hold(kept.reserve(request())) == 0.0
    with pytest.raises(ConfigError, match="--price input=2,output=8"):
        budget(max_cost=1.0, price=None)


def test_a_limit_of_nothing_allows_what_costs_nothing():
    kept = budget(max_cost=0.0, price=Price(0.0, 0.0))
    kept.settle(kept.reserve(request()), Usage(10, 10))
    with pytest.raises(BudgetError):
        budget(max_cost=0.0).reserve(request())


def test_money_that_may_have_been_billed_stays_reserved():
    asked = request()
    kept = budget(max_cost=2.5 * most_usd(asked))
    assert kept.hold(kept.reserve(asked)) == pytest.approx(most_usd(asked))
    kept.hold(kept.reserve(asked))
    with pytest.raises(BudgetError, match="possibly"):
        kept.reserve(asked)


def test_without_limits_a_hold_still_knows_what_may_have_been_billed():
    kept = budget()
    assert kept.hold(kept.reserve(request())) == pytest.approx(most_usd(request()))


def test_a_call_that_was_not_made_gives_everything_back():
    asked = request()
    kept = budget(max_cost=1.01 * most_usd(asked), max_tokens=sum(most_tokens(asked)))
    for _ in range(100):
        kept.release(kept.reserve(asked))
    assert isinstance(kept.reserve(asked), Reservation)


def test_only_the_first_end_of_a_reservation_counts():
    asked = request()
    kept = budget(max_cost=1.01 * most_usd(asked))
    reservation = kept.reserve(asked)
    kept.release(reservation)
    kept.hold(reservation)
    assert kept.settle(reservation, Usage(*most_tokens(asked))) is None
    kept.reserve(asked)


def test_a_reply_beyond_its_bound_teaches_the_bounds_of_later_calls():
    asked = request()
    kept = budget(max_tokens=10 * sum(most_tokens(asked)))
    kept.settle(kept.reserve(asked), Usage(10, 500))  # five times what was allowed
    kept.hold(kept.reserve(asked))
    with pytest.raises(BudgetError, match=f"may take up to {5 * sum(most_tokens(asked))};"):
        kept.reserve(asked)


# --- the property


Plan = list[tuple[ModelRequest, Usage, str]]


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Calls of one thread, what their replies use (all of the bound, or any part of it), and how they end."""
    plan: Plan = []
    for _ in range(draw(st.integers(1, 12))):
        asked = request("x" * draw(st.sampled_from([0, 500, 2000])), draw(st.sampled_from([1, 100, 500])))
        most_in, most_out = most_tokens(asked)
        inputs, outputs = int(draw(used) * most_in), int(draw(used) * most_out)
        reads = draw(st.integers(0, inputs))
        usage = Usage(inputs, outputs, 0, reads, draw(st.integers(0, inputs - reads)))
        plan.append((asked, usage, draw(st.sampled_from(["settle", "settle", "settle", "hold", "release"]))))
    return plan


used = st.sampled_from([1.0, 1.0, 0.9, 0.3])
per_million = st.sampled_from([0.1, 2.0, 37.5])
prices = st.builds(Price, per_million, per_million, st.none() | per_million, st.none() | per_million)
parts = st.sampled_from([0.02, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 1.2])
"""Limits are a part of the most that all calls together may use, so that most of them are met on the way."""


def most_of_all(price: Price, all_plans: Sequence[Plan]) -> tuple[float, int]:
    dearest = max(price.input, price.cache_read or 0.0, price.cache_write or 0.0)
    bounds = [most_tokens(asked) for plan in all_plans for asked, _, _ in plan]
    return sum(reads * dearest + writes * price.output for reads, writes in bounds) / 1e6, sum(map(sum, bounds))


class Ledger:
    """What was really settled, beside the budget's own sums."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.dollars = 0.0
        self.tokens = 0

    def add(self, cost: float | None, usage: Usage) -> None:
        with self.lock:
            self.dollars += cost or 0.0
            self.tokens += usage.input_tokens + usage.output_tokens


def play(kept: Budget, ledger: Ledger, plan: Plan, call_s: float = 0.0) -> None:
    """Make calls of `call_s` seconds one after another until the budget allows no more."""
    for asked, usage, end in plan:
        try:
            reservation = kept.reserve(asked)
        except BudgetError:
            return
        time.sleep(call_s)
        if end == "hold":
            kept.hold(reservation)
        elif end == "release":
            kept.release(reservation)
        else:
            ledger.add(kept.settle(reservation, usage), usage)


@settings(max_examples=150, deadline=None)
@given(plans(), prices, parts, parts)
def test_whatever_the_replies_spending_never_exceeds_the_limits(plan, price, cost_part, tokens_part):
    most_cost, most_used = most_of_all(price, [plan])
    max_cost, max_tokens, ledger = cost_part * most_cost, 1 + int(tokens_part * most_used), Ledger()
    play(budget(max_cost, max_tokens, price=price), ledger, plan)
    assert ledger.dollars <= max_cost
    assert ledger.tokens <= max_tokens


@settings(max_examples=40, deadline=None)
@given(st.lists(plans(), min_size=3, max_size=6), prices, parts, parts)
def test_nor_when_calls_are_made_side_by_side_and_none_waits_for_ever(plans_, price, cost_part, tokens_part):
    most_cost, most_used = most_of_all(price, plans_)
    max_cost, max_tokens, ledger = cost_part * most_cost, 1 + int(tokens_part * most_used), Ledger()
    kept = budget(max_cost, max_tokens, price=price)
    assert parallel([lambda plan=plan: play(kept, ledger, plan, 0.0002) for plan in plans_]) == []  # type: ignore[misc]
    assert ledger.dollars <= max_cost
    assert ledger.tokens <= max_tokens


@pytest.mark.parametrize("price", [0.1, 0.3, 0.7, 1.1, 2.3])
def test_a_cost_never_exceeds_what_was_set_aside_for_it_not_even_by_rounding(price):
    kept = budget(max_cost=1.0, price=Price(price, price, price, price))
    for inputs in range(200):
        reservation = kept.reserve(request("x" * (inputs + 1)))
        reads, writes = reservation.bound
        assert (kept.settle(reservation, Usage(reads, writes, 0, reads // 3, reads // 5)) or 0.0) <= reservation.dollars


# --- calls side by side


def test_a_call_waits_for_others_under_way_and_is_made_when_they_cost_less_than_they_might():
    asked = request()
    kept = budget(max_cost=1.5 * most_usd(asked))
    first = kept.reserve(asked)
    outcome: list[object] = []
    thread = waiting(kept, asked, outcome)
    assert outcome == []
    kept.settle(first, Usage(1, 1))
    thread.join(10)
    assert isinstance(outcome[0], Reservation)


def test_a_call_that_waits_is_refused_when_what_it_waited_for_was_spent():
    asked = request()
    kept = budget(max_cost=1.5 * most_usd(asked))
    first = kept.reserve(asked)
    outcome: list[object] = []
    thread = waiting(kept, asked, outcome)
    kept.settle(first, Usage(*most_tokens(asked)))
    thread.join(10)
    assert isinstance(outcome[0], BudgetError)


def test_small_calls_do_not_keep_a_large_one_waiting():
    """The line is served in order: what came first is looked at first, however small the next one is."""
    large, small = request("x" * 5000), request("x")
    kept = budget(max_tokens=sum(most_tokens(large)) + 10)
    running = kept.reserve(small)
    outcome: list[object] = []
    threads = [waiting(kept, large, outcome), waiting(kept, small, outcome)]
    kept.release(running)
    threads[0].join(10)
    assert isinstance(outcome[0], Reservation)
    assert outcome[0].request is large
    assert len(outcome) == 1
    kept.release(outcome[0])
    threads[1].join(10)
    assert len(outcome) == 2


@pytest.mark.parametrize("reason", [None, BudgetError("over")])
def test_the_end_of_the_run_ends_all_waiting(reason):
    asked, stop = request(), StopSignal()
    kept = budget(max_cost=1.5 * most_usd(asked), stop=stop)
    running = kept.reserve(asked)
    outcome: list[object] = []
    threads = [waiting(kept, asked, outcome) for _ in range(8)]
    stop.interrupt() if reason is None else stop.stop(reason)
    for thread in threads:
        thread.join(10)
    assert [type(error) for error in outcome] == [KeyboardInterrupt if reason is None else BudgetError] * 8
    kept.settle(running, Usage(1, 1))  # what was under way ends as ever


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 8), st.integers(0, 30))
def test_a_run_that_is_stopped_at_any_moment_leaves_no_call_waiting(threads, settled_before_the_stop):
    asked, stop = request(), StopSignal()
    kept = budget(max_cost=1.5 * most_usd(asked), stop=stop)
    settled = 0

    def work() -> None:
        nonlocal settled
        for _ in range(10):
            reservation = kept.reserve(asked)
            settled += 1
            if settled >= settled_before_the_stop:
                stop.interrupt()
            kept.settle(reservation, Usage(1, 0))

    raised = parallel([work] * threads)
    assert all(isinstance(error, KeyboardInterrupt | BudgetError) for error in raised)


# --- hours


def test_after_its_hours_no_call_is_made():
    now = [1000.0]
    stop = StopSignal(clock=lambda: now[0])
    stop.limit_hours(0.5)
    kept = budget(stop=stop)
    reservation = kept.reserve(request())
    now[0] += 1800.0
    kept.settle(reservation, Usage(1, 1))  # what is under way is still paid for
    with pytest.raises(BudgetError, match=r"^--max-hours 0\.5: they are over; run the same command again to go on$"):
        kept.reserve(request())


def test_without_a_limit_of_hours_there_is_no_end():
    budget(stop=StopSignal(clock=lambda: 1e12)).reserve(request())


def test_a_stopped_run_reserves_nothing():
    stop = StopSignal()
    stop.interrupt()
    with pytest.raises(KeyboardInterrupt):
        budget(stop=stop).reserve(request())
