"""How many calls are made at once: what the provider takes, and every thread gets its turn."""

from __future__ import annotations

import heapq
import math
import random
import threading
from dataclasses import dataclass, field

import pytest

from ktdeval.calls.concurrency_limit import AimdWindow, ProviderLimiter
from ktdeval.testing import wait_for
from support.threads import Waiter


def no_check() -> None:
    """The run goes on."""


@dataclass
class Served:
    """What a simulated provider saw. `limits`: the limit whenever a call ended, after the first
    quarter of the answers.
    """

    limits: list[int] = field(default_factory=list)
    attempts: list[int] = field(default_factory=list)
    answered_at: list[float] = field(default_factory=list)


def simulate(takes_at_once: int, ceiling: int, calls: int) -> Served:
    """`calls` calls through a limiter to a provider that answers in about a second and refuses
    whatever is too much at once.

    What is refused comes again as soon as it gets a slot, which is harder on the limit than a
    backoff would be. Time is simulated: a heap of ends, and the calls that wait, first come, first
    served.
    """
    rng = random.Random(7)
    window = AimdWindow(ceiling)
    seen = Served(attempts=[0] * calls)
    waiting = list(range(calls))
    ends: list[tuple[float, int, float, bool]] = []
    now = 0.0
    in_service = 0

    while waiting or ends:
        while waiting and window.delay_s(now) == 0:
            call = waiting.pop(0)
            seen.attempts[call] += 1
            window.start(now)
            taken = in_service < takes_at_once
            in_service += taken
            heapq.heappush(
                ends, (now + (rng.uniform(0.8, 1.2) if taken else 0.05), call, now, taken)
            )

        pause_over = now + window.delay_s(now) if waiting else math.inf
        if ends and ends[0][0] <= pause_over:
            now, call, started_at, taken = heapq.heappop(ends)
            window.running -= 1
            if taken:
                in_service -= 1
                window.note_success(started_at)
                seen.answered_at.append(now)
            else:
                window.note_throttling(now, None, started_at)
                waiting.append(call)

            if len(seen.answered_at) > calls // 4:
                seen.limits.append(window.limit)
        else:
            now = pause_over

    assert len(seen.answered_at) == calls

    return seen


@pytest.mark.parametrize("takes_at_once", [1, 2, 5, 10, 40])
def test_the_limit_finds_what_a_provider_takes_at_once_and_stays_around_it(takes_at_once):
    served = simulate(takes_at_once, ceiling=200, calls=150 * takes_at_once)
    # one more than it takes is how the limit is found out
    assert max(served.limits) <= takes_at_once + 1
    assert min(served.limits) >= (takes_at_once + 1) // 2
    assert 0.6 * takes_at_once <= sum(served.limits) / len(served.limits)

    if takes_at_once == 10:  # kept busy: 10 answers a second would be all it can
        assert served.answered_at[-1] < 1500 / (0.65 * 10)


def test_retry_after_and_the_gap_hold_back_every_start():
    window = AimdWindow(ceiling=8)
    window.start(0.0)
    window.note_throttling(1.0, retry_after_s=20.0, started_at=0.0)

    assert window.delay_s(1.0) == 20.0

    # a shorter wish does not end a longer one
    window.note_throttling(2.0, retry_after_s=5.0, started_at=0.0)
    assert (window.delay_s(2.0), window.delay_s(21.0)) == (19.0, 0.0)

    window = AimdWindow(ceiling=10, gap_s=0.5)
    window.start(10.0)

    assert [window.delay_s(now) for now in (10.0, 10.2, 10.5)] == [0.5, pytest.approx(0.3), 0.0]


def test_one_round_of_refusals_halves_the_limit_only_once():
    window = AimdWindow(ceiling=16)
    for number in range(16):
        window.note_throttling(1.0 + number / 100, None, started_at=0.0)

    assert window.limit == 8

    window.note_throttling(3.0, None, started_at=2.0)
    assert window.limit == 4

    for _ in range(100):
        window.note_success(started_at=2.5)  # from before the cut

    assert window.limit == 4

    for _ in range(5):
        window.note_success(started_at=3.5)

    assert window.limit == 5


def test_the_limit_never_falls_below_one_nor_rises_above_the_ceiling():
    window = AimdWindow(ceiling=3)
    for second in range(20):
        window.note_throttling(second + 0.5, None, started_at=float(second))

    assert window.limit == 1

    for second in range(20, 200):
        window.note_success(started_at=float(second))

    assert window.limit == 3


def test_concurrency_limit_rises_by_one_after_that_many_answers():
    window = AimdWindow(ceiling=4)
    for second in range(9):
        window.note_throttling(second + 0.5, None, started_at=float(second))

    limits = []
    for second in range(9, 14):
        window.note_success(started_at=float(second))
        limits.append(window.limit)

    assert limits == [2, 2, 2, 3, 3]  # 2, 2.5, 2.9, 3.24, 3.55


def test_slots_are_given_in_the_order_in_which_they_were_asked_for():
    limiter = ProviderLimiter(ceiling=1, gap_s=0.0, check=no_check)
    order = list[int]()

    def call(number: int, waits: object) -> None:
        with limiter.slot(waits):
            order.append(number)

    with limiter.slot():
        waiters = [Waiter(lambda waits, number=number: call(number, waits)) for number in range(6)]
        silent = threading.Thread(target=call, args=(6, None))
        silent.start()
        wait_for(lambda: len(limiter._queue._waiting) == 7)

    assert [waiter.outcome for waiter in waiters] == [None] * 6

    silent.join()
    assert order == list(range(7))


def test_slot_is_released_when_its_call_raises_and_the_pause_is_reported():
    now = [100.0]
    limiter = ProviderLimiter(ceiling=1, gap_s=0.0, check=no_check, clock=lambda: now[0])
    for _ in range(3):
        with pytest.raises(ZeroDivisionError), limiter.slot():
            raise ZeroDivisionError

    assert limiter.pause_s == 0.0

    with limiter.slot() as slot:
        slot.is_throttled = True
        slot.retry_after_s = 30.0

    now[0] = 110.0

    assert (limiter.pause_s, limiter._window.limit) == (20.0, 1)
