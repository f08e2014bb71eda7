"""How long the command line takes to start, as multiples of `python -c "import click"` in the same run.

    python benchmarks/bench_startup.py [--rounds 15]

Commands take turns, so that a busy moment of the machine hits all of them; the least time of each counts.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

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
        "ktdeval plugins": [script, "plugins"],
    }


def measure(rounds: int) -> dict[str, float]:
    """Least wall time of each command in seconds, over `rounds` rounds after one to warm up."""
    best: dict[str, float] = {}
    for turn in range(rounds + 1):
        for name, command in commands().items():
            began = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            took = time.perf_counter() - began
            if turn:
                best[name] = min(best.get(name, took), took)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    best = measure(parser.parse_args().rounds)
    for name, seconds in best.items():
        print(f"{name:28s} {1000 * seconds:7.1f} ms  {seconds / best[BASE]:5.2f} x")


if __name__ == "__main__":
    main()
