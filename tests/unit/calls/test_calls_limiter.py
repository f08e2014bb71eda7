"""How many calls are made at once: what the provider takes, and every thread gets its turn."""

from __future__ import annotations

import heapq
import math
import random
import threading
import time
from dataclasses import dataclass, field

import pytest

from ktdeval.calls.limiter import AimdWindow, ProviderLimiter
from ktdeval.calls.stop import StopSignal
from ktdeval.errors import ProviderError


def no_check() -> None:
    """The run goes on."""


@dataclass
class Served:
    """What a simulated provider saw. `limits`: the limit whenever a call ended, after the first quarter of the answers."""

    limits: list[int] = field(default_factory=list)
    attempts: list[int] = field(default_factory=list)
    answered_at: list[float] = field(default_factory=list)

    @property
    def mean_limit(self) -> float:
        return sum(self.limits) / len(self.limits)


def simulate(takes_at_once: int, ceiling: int, calls: int, retry_after_s: float | None = None) -> Served:
    """`calls` calls through a limiter to a provider that answers in about a second and refuses whatever is too much at once.

    What is refused comes again as soon as it gets a slot, which is harder on the limit than a backoff would be. Time is
    simulated: a heap of ends, and the calls that wait, first come, first served.
    """
    rng = random.Random(7)
    window = AimdWindow(ceiling)
    waiting = list(range(calls))
    ends: list[tuple[float, int, float, bool]] = []
    seen = Served(attempts=[0] * calls)
    now, in_service = 0.0, 0
    while waiting or ends:
        while waiting and window.delay_s(now) == 0:
            call = waiting.pop(0)
            seen.attempts[call] += 1
            window.start(now)
            taken = in_service < takes_at_once
            in_service += taken
            heapq.heappush(ends, (now + (rng.uniform(0.8, 1.2) if taken else 0.05), call, now, taken))
        pause_over = now + window.delay_s(now) if waiting else math.inf
        if ends and ends[0][0] <= pause_over:
            now, call, started_at, taken = heapq.heappop(ends)
            window.running -= 1
            if taken:
                in_service -= 1
                window.succeeded(started_at)
                seen.answered_at.append(now)
            else:
                window.throttled(now, retry_after_s, started_at)
                waiting.append(call)
            if len(seen.answered_at) > calls // 4:
                seen.limits.append(window.limit)
        else:
            now = pause_over
    return seen


@pytest.mark.parametrize("takes_at_once", [1, 2, 5, 10, 40])
def test_the_limit_finds_what_a_provider_takes_at_once_and_stays_around_it(takes_at_once):
    served = simulate(takes_at_once, ceiling=200, calls=150 * takes_at_once)
    assert max(served.limits) <= takes_at_once + 1  # one more than it takes is how the limit is found out
    assert min(served.limits) >= (takes_at_once + 1) // 2
    assert 0.6 * takes_at_once <= served.mean_limit


def test_a_provider_is_kept_busy_while_its_limit_is_found_out():
    served = simulate(10, ceiling=200, calls=1500)
    assert len(served.answered_at) == 1500
    assert served.answered_at[-1] < 1500 / (0.65 * 10)  # 10 answers a second would be all it can


def test_every_call_is_answered_in_the_end_and_few_are_refused_often():
    served = simulate(3, ceiling=100, calls=600)
    assert len(served.answered_at) == 600
    after_the_storm = served.attempts[200:]  # the first hundred meet a limit that is not yet known
    assert sum(after_the_storm) < 1.5 * len(after_the_storm)
    assert max(served.attempts) <= 8


def test_a_provider_without_limits_is_asked_as_much_as_the_ceiling_allows_from_the_start():
    served = simulate(10_000, ceiling=50, calls=500)
    assert set(served.limits) == {50}
    assert sum(served.attempts) == 500


def test_retry_after_holds_back_every_start_until_it_has_passed():
    window = AimdWindow(ceiling=8)
    window.start(0.0)
    window.throttled(1.0, retry_after_s=20.0, started_at=0.0)
    assert window.delay_s(1.0) == 20.0
    window.throttled(2.0, retry_after_s=5.0, started_at=0.0)  # a shorter wish does not end a longer one
    assert window.delay_s(2.0) == 19.0
    assert window.delay_s(21.0) == 0.0


def test_one_round_of_refusals_halves_the_limit_once():
    window = AimdWindow(ceiling=16)
    for _ in range(16):
        window.start(0.0)
    for place in range(16):
        window.throttled(1.0 + place / 100, None, started_at=0.0)
        window.running -= 1
    assert window.limit == 8
    window.start(2.0)
    window.throttled(3.0, None, started_at=2.0)
    assert window.limit == 4


def test_answers_to_calls_from_before_a_cut_do_not_raise_the_limit():
    window = AimdWindow(ceiling=4)
    for _ in range(4):
        window.start(0.0)
    window.throttled(1.0, None, started_at=0.0)
    for _ in range(100):
        window.succeeded(started_at=0.5)
    assert window.limit == 2
    for _ in range(3):
        window.succeeded(started_at=1.5)
    assert window.limit == 3


def test_the_limit_never_falls_below_one_nor_rises_above_the_ceiling():
    window = AimdWindow(ceiling=3)
    for second in range(20):
        window.throttled(second + 0.5, None, started_at=float(second))
    assert window.limit == 1
    for second in range(20, 200):
        window.succeeded(started_at=float(second))
    assert window.limit == 3


def test_starts_are_at_least_the_gap_apart():
    window = AimdWindow(ceiling=10, gap_s=0.5)
    window.start(10.0)
    assert window.delay_s(10.0) == 0.5
    assert window.delay_s(10.2) == pytest.approx(0.3)
    assert window.delay_s(10.5) == 0.0


def test_threads_never_hold_more_slots_than_the_limit_and_all_get_one():
    limiter = ProviderLimiter(ceiling=4, gap_s=0.0, check=no_check)
    lock, now, most, done = threading.Lock(), 0, 0, 0

    def call() -> None:
        nonlocal now, most, done
        for _ in range(20):
            with limiter.slot() as slot:
                with lock:
                    now += 1
                    most = max(most, now)
                time.sleep(0.0005)
                with lock:
                    now -= 1
                    done += 1
                slot.is_answered = True

    threads = [threading.Thread(target=call) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert (done, most) == (320, 4)


def test_a_real_server_that_takes_three_at_once_answers_everything():
    limiter = ProviderLimiter(ceiling=12, gap_s=0.0, check=no_check)
    in_service = threading.BoundedSemaphore(3)
    answered: list[int] = []

    def call(number: int) -> None:
        while True:
            with limiter.slot() as slot:
                if in_service.acquire(blocking=False):
                    time.sleep(0.001)
                    in_service.release()
                    slot.is_answered = True
                    answered.append(number)
                    return
                slot.is_throttled = True

    threads = [threading.Thread(target=lambda: [call(number) for number in range(10)]) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(answered) == 120


def wait_in_line(limiter: ProviderLimiter, number: int, order: list[object]) -> threading.Thread:
    """A thread that waits for a slot; returns when it is in the line."""
    is_waiting = threading.Event()

    def call() -> None:
        try:
            with limiter.slot(is_waiting.set):
                order.append(number)
        except BaseException as error:  # noqa: BLE001 - what ended its wait is what the test looks at
            order.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    assert is_waiting.wait(10)
    return thread


def test_slots_are_given_in_the_order_in_which_they_were_asked_for():
    limiter = ProviderLimiter(ceiling=1, gap_s=0.0, check=no_check)
    order: list[object] = []
    with limiter.slot():
        threads = [wait_in_line(limiter, number, order) for number in range(6)]
    for thread in threads:
        thread.join(10)
    assert order == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("reason", [None, ProviderError("the key is refused")])
def test_the_end_of_a_run_empties_the_line(reason):
    stop = StopSignal()
    limiter = ProviderLimiter(ceiling=1, gap_s=0.0, check=stop.check)
    order: list[object] = []
    with limiter.slot():
        threads = [wait_in_line(limiter, number, order) for number in range(5)]
        stop.interrupt() if reason is None else stop.stop(reason)
        for thread in threads:
            thread.join(10)
    assert [type(error) for error in order] == [KeyboardInterrupt if reason is None else ProviderError] * 5
    with pytest.raises((KeyboardInterrupt, ProviderError)), limiter.slot():
        pass


def test_a_slot_is_given_back_when_its_call_raises():
    limiter = ProviderLimiter(ceiling=1, gap_s=0.0, check=no_check)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError), limiter.slot():
            raise ZeroDivisionError


def test_the_pause_that_is_left_can_be_named():
    now = [100.0]
    limiter = ProviderLimiter(ceiling=2, gap_s=0.0, check=no_check, clock=lambda: now[0])
    assert limiter.pause_s == 0.0
    with limiter.slot() as slot:
        slot.is_throttled, slot.retry_after_s = True, 30.0
    now[0] = 110.0
    assert limiter.pause_s == 20.0
    assert limiter.limit == 1
