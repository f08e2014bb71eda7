"""How long the command line takes to start, as multiples of `python -c "import click"` in the same
run.

    python benchmarks/bench_startup.py [--rounds 15]

Commands take turns, so that a busy moment of the machine hits all of them; the least time of each
counts. On a machine that is never idle the ratio of CPU times is the steadier one.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

from figures import Took, children_cpu_s, cpu_s, wall_s

BASE = 'python -c "import click"'


def commands() -> dict[str, list[str]]:
    """What is timed, by the name it is shown under."""
    script = str(Path(sys.executable).with_name("ktdeval"))
    return {
        "python -c pass": [sys.executable, "-c", "pass"],
        BASE: [sys.executable, "-c", "import click"],
        'python -c "import ktdeval"': [sys.executable, "-c", "import ktdeval"],
        "ktdeval --help": [script, "--help"],
        "ktdeval list tasks": [script, "list", "tasks"],
        "ktdeval list models": [script, "list", "models"],
        "ktdeval data": [script, "data"],
        "ktdeval list plugins": [script, "list", "plugins"],
    }


def time_once(command: list[str]) -> Took:
    """Run a command."""
    before, began = children_cpu_s(), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return Took(time.perf_counter() - began, children_cpu_s() - before)


def measure(rounds: int) -> dict[str, list[Took]]:
    """Times of each command in `rounds` rounds, after one to warm up."""
    taken: dict[str, list[Took]] = {}
    for turn in range(rounds + 1):
        for name, command in commands().items():
            took = time_once(command)
            if turn:
                taken.setdefault(name, []).append(took)

    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    taken = measure(parser.parse_args().rounds)
    base_wall_s = min(wall_s(taken[BASE]))
    base_cpu_s = max(min(cpu_s(taken[BASE])), 1e-9)
    for name, turns in taken.items():
        wall = min(wall_s(turns))
        cpu = min(cpu_s(turns))
        print(
            f"{name:28s} {1000 * wall:7.1f} ms {wall / base_wall_s:5.2f} x   CPU {1000 * cpu:7.1f} ms"
            f" {cpu / base_cpu_s:5.2f} x"
        )


if __name__ == "__main__":
    main()
