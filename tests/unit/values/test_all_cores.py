"""`ktdeval.values.all_cores`: work in one thread for each core."""

from __future__ import annotations

import threading

import pytest

from ktdeval.values.all_cores import on_all_cores


@pytest.fixture(params=[1, 3])
def cores(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    count = int(request.param)
    monkeypatch.setattr("ktdeval.values.all_cores.cores", lambda: count)
    return count


def test_results_are_in_the_order_of_the_parts_and_no_thread_stays(cores: int) -> None:
    before = threading.active_count()
    threads = set()

    def square(number: int) -> int:
        threads.add(threading.get_ident())
        return number * number

    assert on_all_cores(square, range(50)) == [number * number for number in range(50)]
    assert len(threads) <= cores
    assert threading.active_count() == before
    assert on_all_cores(square, []) == []


def test_a_part_that_fails_raises_its_own_error(cores: int) -> None:
    with pytest.raises(ZeroDivisionError):
        on_all_cores(lambda number: 1 // number, [2, 1, 0, 3])
