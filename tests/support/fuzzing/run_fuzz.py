"""Fuzz every parser of untrusted bytes: `make fuzz`.

`KTDEVAL_FUZZ_RUNS` executions each (default 1,000,000), of one parser where it is named. With
`atheris` installed and `--engine atheris` inputs follow the coverage; the default engine changes,
cuts and joins seeds by a fixed seed of chance. Exit code 1: a parser raised what is not typed, or
took more than two seconds of the processor for one input.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
import traceback
from collections.abc import Sequence

from fuzz_parsers import Parser, outcome, parsers

MOST_SECONDS = 2.0  # for one input
MOST_BYTES = 20_000
_TOKENS = (
    b"null", b"true", b"-1", b"1e999", b"NaN", b"{", b"}", b"[", b"]", b'"', b":", b",", b"\\u0000",
    b"\\ud800", b"\x00", b"\xff", b"\xef\xbb\xbf", b"9" * 25, b"[" * 300, b"&a ", b"*a", b"!!set ",
    b"<<: ", b"../", b"\n", b"\r", b"\t", b"- ", b"inf", b"0x", b"'", b"```", b"=", b"2024-02-30",
)  # fmt: skip


def mutate(data: bytes, chance: random.Random) -> bytes:
    """Return a changed input."""
    changed = bytearray(data[:MOST_BYTES])
    for _ in range(chance.choice((1, 1, 2, 4, 16))):
        place = chance.randrange(len(changed) + 1)
        way = chance.randrange(6)
        if way == 0 and place < len(changed):
            changed[place] ^= 1 << chance.randrange(8)
        elif way == 1 and place < len(changed):
            changed[place] = chance.randrange(256)
        elif way == 2:
            changed[place:place] = chance.choice(_TOKENS)
        elif way == 3:
            del changed[place : place + chance.choice((1, 2, 8, 64))]
        elif way == 4:
            end = place + chance.choice((1, 4, 32))
            changed[place:place] = changed[place:end]
        else:
            changed[place : place + 4] = chance.choice(_TOKENS)

    return bytes(changed[:MOST_BYTES])


def fuzz(name: str, parser: Parser, runs: int, seconds: float) -> list[str]:
    """Fuzz one parser; return its defects in words, and print what was done."""
    chance = random.Random(name)
    found: dict[str, str] = {}
    slowest = 0.0
    began = time.monotonic()
    done = 0
    pool = list(parser.seeds)
    while done < runs and time.monotonic() - began < seconds:
        data = mutate(chance.choice(pool), chance) if done >= len(pool) else pool[done]
        # Of this process: a busy machine is no defect of a parser.
        started = time.process_time()
        defect = outcome(parser, data)
        took = time.process_time() - started
        slowest = max(slowest, took)
        done += 1
        if chance.random() < 0.001 and len(pool) < 200:
            pool.append(data)
        if defect is not None:
            frame = traceback.extract_tb(defect.__traceback__)[-1]
            key = f"{type(defect).__name__} at {frame.filename}:{frame.lineno}"
            found.setdefault(key, f"{name}: {key}: {str(defect)[:120]} for {data[:200]!r}")
        if took > MOST_SECONDS:
            found.setdefault("slow", f"{name}: took {took:.1f} s for {data[:200]!r}")

    print(
        f"{name:<24} {done:>9,} executions, slowest {slowest * 1000:7.1f} ms, defects {len(found)}",
        flush=True,
    )
    return list(found.values())


def fuzz_by_coverage(name: str, parser: Parser, runs: int) -> None:
    """Fuzz one parser with atheris, which ends the process."""
    import atheris

    def one_input(data: bytes) -> None:
        defect = outcome(parser, data)
        if defect is not None:
            raise defect

    atheris.instrument_all()
    words = [
        sys.argv[0],
        f"-runs={runs}",
        f"-max_len={MOST_BYTES}",
        "-timeout=10",
        "-rss_limit_mb=4096",
    ]
    atheris.Setup(words, one_input)
    print(f"{name}: {runs:,} executions by coverage", flush=True)
    atheris.Fuzz()


def main(words: Sequence[str]) -> int:
    """Run; return the exit code."""
    chosen = argparse.ArgumentParser(description=__doc__)
    chosen.add_argument("names", nargs="*", help="parsers; all by default")
    chosen.add_argument("--engine", choices=("changes", "atheris"), default="changes")
    chosen.add_argument("--seconds", type=float, default=float("inf"), help="most for a parser")
    options = chosen.parse_args(words)
    runs = int(os.environ.get("KTDEVAL_FUZZ_RUNS", "1000000"))
    defects = []
    known = parsers()
    for name in options.names or known:
        if options.engine == "atheris":
            fuzz_by_coverage(name, known[name], runs)
        defects += fuzz(name, known[name], runs, options.seconds)

    for defect in defects:
        print(defect)

    return 1 if defects else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
