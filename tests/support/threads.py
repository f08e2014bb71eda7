"""Work done by several threads at once."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from ktdeval.testing import wait_for


def in_threads(count: int, work: Callable[[int], object]) -> list[object]:
    """Return the result or error of `work` in each of `count` threads, which must all end."""
    results: list[object] = [None] * count

    def run(number: int) -> None:
        try:
            results[number] = work(number)
        except BaseException as error:  # noqa: BLE001 - what ended a thread is what tests look at
            results[number] = error

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()

    for thread in threads:
        thread.join(240)

    assert not any(thread.is_alive() for thread in threads), "a thread waits for ever"

    return results


def wait_for_error_text(capsys: pytest.CaptureFixture[str], text: str) -> None:
    """Wait until a text has been printed to stderr: a server's thread prints the traceback of a
    request that failed after it has answered.
    """
    printed = list[str]()

    def is_printed() -> bool:
        printed.append(capsys.readouterr().err)
        return text in "".join(printed)

    wait_for(is_printed)


class Waiter:
    """A thread that waits for something: `wait` is given what to call when it does. Made, it is
    waiting; `outcome` is its end's.
    """

    def __init__(self, wait: Callable[[Callable[[], None]], object]) -> None:
        waits = threading.Event()

        def run() -> None:
            try:
                self._outcome = wait(waits.set)
            except BaseException as error:  # noqa: BLE001 - likewise
                self._outcome = error

        self._outcome: object = None
        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()

        assert waits.wait(240)

    @property
    def is_waiting(self) -> bool:
        return self._thread.is_alive()

    @property
    def outcome(self) -> object:
        self._thread.join(240)
        assert not self.is_waiting, "a thread waits for ever"
        return self._outcome
