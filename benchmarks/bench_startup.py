"""How long the command line takes to start, as multiples of `python -c "import click"` in the same
run.

    python benchmarks/bench_startup.py [--rounds 15]

Commands take turns, so that a busy moment of the machine hits all of them; the least time of each
counts. On a machine that is never idle the ratio of CPU times is the steadier one.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

BASE = 'python -c "import click"'


def commands() -> dict[str, list[str]]:
    """What is timed, by the name it is shown under."""
    script = str(Path(sys.executable).with_name("ktdeval"))
    return {
        "python -c pass": [sys.executable, "-c", "pass"],
        BASE: [sys.executable, "-c", "import click"],
        'python -c "import ktdeval"': [sys.executable, "-c", "import ktdeval"],
        "ktdeval --help": [script, "--help"],
        "ktdeval tasks": [script, "tasks"],
        "ktdeval models": [script, "models"],
        "ktdeval data": [script, "data"],
        "ktdeval list plugins": [script, "list", "plugins"],
    }


class Took(NamedTuple):
    """Seconds that a command takes, on the wall and of CPU."""

    wall_s: float
    cpu_s: float

    def least(self, other: Took) -> Took:
        """The lesser of each."""
        return Took(min(self.wall_s, other.wall_s), min(self.cpu_s, other.cpu_s))


def time_once(command: list[str]) -> Took:
    """Run a command."""
    before, began = children_cpu_s(), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return Took(time.perf_counter() - began, children_cpu_s() - before)


def children_cpu_s() -> float:
    """CPU time of all processes that this one has waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def measure(rounds: int) -> dict[str, Took]:
    """Least time of each command over `rounds` rounds after one to warm up."""
    best: dict[str, Took] = {}
    for turn in range(rounds + 1):
        for name, command in commands().items():
            took = time_once(command)
            if turn:
                best[name] = took.least(best.get(name, took))
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    best = measure(parser.parse_args().rounds)
    base = best[BASE]
    for name, (wall_s, cpu_s) in best.items():
        ratios = f"{wall_s / base.wall_s:5.2f} x", f"{cpu_s / max(base.cpu_s, 1e-9):5.2f} x"
        print(
            f"{name:28s} {1000 * wall_s:7.1f} ms {ratios[0]}   CPU {1000 * cpu_s:7.1f} ms"
            f" {ratios[1]}"
        )


if __name__ == "__main__":
    main()
