"""A worker in a process of its own, which does what the lines of its input say: a command and its
arguments. It answers each with a line.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from subprocess import PIPE, Popen
from typing import Any

from support.paths import TESTS

LEASE_S = 3600.0


class Worker:
    """The other process, as a test sees it."""

    def __init__(self, place: str, name: str, endpoint: str = "") -> None:
        self.name = name
        self.process = Popen(
            [sys.executable, "-m", __name__, place, name, endpoint],
            stdin=PIPE,
            stdout=PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(TESTS)},
        )

    def send(self, *words: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()

    def answer(self) -> str:
        """Next answer; empty if the process has ended, or was killed within the line."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line.endswith("\n"):
            return ""

        return line.strip()

    def ask(self, *words: Any) -> str:
        self.send(*words)
        return self.answer()

    def kill(self) -> None:
        self.process.kill()
        self.end()

    def end(self) -> None:
        """Let the process end, and wait for it."""
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()

        self.process.wait()


@contextmanager
def workers(place: str, *names: str, endpoint: str = "") -> Iterator[list[Worker]]:
    """Start workers over a store; they are ready when the block begins, and have ended after it."""
    started = [Worker(place, name, endpoint) for name in names]
    try:
        for worker in started:
            assert worker.answer() == "ready"

        yield started
    finally:
        for worker in started:
            worker.kill()


def main(place: str, name: str, endpoint: str) -> None:
    import random

    from ktdeval_grid.coordination.claims import Claim, ClaimBoard
    from ktdeval_grid.coordination.shared_sums import SharedSum
    from support.stores.store_places import opened

    board = ClaimBoard(opened(place, endpoint), "", name, LEASE_S)
    board.beats.beat()
    claims: dict[str, Claim] = {}
    chance = random.Random(name)

    def claim(unit: str, wait_us: str) -> object:
        time.sleep(int(wait_us) / 1e6)
        got = board.claim(unit)
        if got is not None:
            claims[unit] = got

        return None if got is None else got.generation

    def spend(limit: str, rounds: str) -> object:
        """Draw amounts, use a part of each, and give back the rest."""
        total = SharedSum(board.store, "sums/dollars", int(limit), board.beats)
        for _ in range(int(rounds)):
            amount = chance.randint(1, 20)
            if total.draw(amount):
                used = chance.randint(0, amount)
                print("drew", flush=True)
                total.give_back(amount - used)
                print("used", used, flush=True)

        return "end"

    commands: dict[str, Callable[..., object]] = {
        "claim": claim,
        "is_ours": lambda unit: claims[unit].is_ours(),
        "finish": lambda unit, text: claims[unit].finish(text.encode()),
        "done": lambda unit, text: board.record_done(unit, text.encode()),
        "release": lambda unit: claims[unit].release(),
        "create": lambda key, text: board.store.create(key, text.encode()),
        "spend": spend,
    }
    print("ready", flush=True)

    for line in sys.stdin:
        command, *words = line.split()
        print(commands[command](*words), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
