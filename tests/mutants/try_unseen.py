"""Try faults that nobody has seen, in rooms and at places drawn by a seed, and print the share that
the rooms' own quick tests kill: `KTDEVAL_FAULTS_SEED=… make unseen`.

As many rooms are tried as fit the time, two at once. The exit code is 1 if the share is below the
floor, which is far below the usual one: a survivor is a hint for a test, and no failure.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
SEED = "KTDEVAL_FAULTS_SEED"  #: names the variable of the seed
DEFAULT_SEED = "1"
FAULTS = 200
A_ROOM = 10  # faults
SECONDS = 240.0
MAX_ROOM_SECONDS = 120.0
AT_ONCE = 2
FLOOR = 0.5
FEWEST = 50  # faults of several rooms, for which the floor holds


@dataclass(frozen=True)
class Tried:
    """What came of the faults of a room."""

    room: str
    faults: int
    killed: int
    survivors: tuple[str, ...]


def rooms_of(repository: Path) -> list[str]:
    """Names of all rooms with tests of their own, sorted."""
    names = {path.name for path in (repository / "tests/unit").glob("*/")}
    for pattern in ("tasks/*/tests", "plugins/*/tests", "plugins/kits/*/tests"):
        names |= {
            path.parent.name for path in repository.glob(pattern) if "-" not in path.parent.name
        }
    return sorted(names)


def try_room(repository: Path, room: str, seed: str, seconds: float) -> Tried | None:
    """Try faults of a room; None if its tests take too long."""
    words = ["--seed", seed, "--own", "--count", str(A_ROOM), "--patience", "5"]
    words += ["--repository", str(repository)]
    command = [sys.executable, HERE / "run_mutants.py", room, *words]
    try:
        done = subprocess.run(
            command, cwd=repository, capture_output=True, text=True, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        return None

    counts = re.search(rf"^{room} +(\d+) +\d+ +(\d+)$", done.stdout, re.MULTILINE)
    if counts is None:
        reason = " ".join(f"{done.stdout} {done.stderr}".split())[-300:]
        return Tried(room, 0, 0, (f"not tried: {reason}",))

    survivors = re.findall(r"^survivor.*", done.stdout, re.MULTILINE)
    return Tried(room, int(counts[1]), int(counts[2]), tuple(survivors))


def try_rooms(repository: Path, rooms: Sequence[str], seed: str, seconds: float) -> Iterator[Tried]:
    """Yield what comes of rooms in their order, until enough faults are tried or the time is up."""
    until = time.monotonic() + seconds
    tried = 0

    def try_next(room: str) -> Tried | None:
        left = until - time.monotonic()
        if left < seconds / 4 or tried >= FAULTS:
            return None
        return try_room(repository, room, seed, min(left, MAX_ROOM_SECONDS))

    with ThreadPoolExecutor(AT_ONCE) as pool:
        for found in pool.map(try_next, rooms):
            if found is not None:
                tried += found.faults
                yield found


def main(arguments: Sequence[str] | None = None) -> int:
    """Try faults, and print what survived and the share that was killed."""
    parser = argparse.ArgumentParser(
        prog="make unseen", description=__doc__.split(":", maxsplit=1)[0]
    )
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--repository", type=Path, default=HERE.parents[1])
    given = parser.parse_args(arguments)
    seed = os.environ.get(SEED, DEFAULT_SEED)
    rooms = rooms_of(given.repository)
    random.Random(seed).shuffle(rooms)
    print(f"seed {seed} ({SEED}=… draws others), {given.seconds:.0f} s")

    faults = killed = 0
    for tried in try_rooms(given.repository, rooms, seed, given.seconds):
        faults += tried.faults
        killed += tried.killed
        print(f"{tried.room:<28} {tried.killed:>3} of {tried.faults}", flush=True)
        for survivor in tried.survivors:
            print(f"    {survivor}")

    if not faults:
        print("no fault was tried in this time")
        return 1
    print(
        f"{killed} of {faults} unseen faults were killed: {killed / faults:.0%} (floor {FLOOR:.0%}"
        f" of at least {FEWEST})"
    )
    return int(faults >= FEWEST and killed < FLOOR * faults)


if __name__ == "__main__":
    sys.exit(main())
