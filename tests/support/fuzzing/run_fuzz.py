"""Fuzz every parser of untrusted bytes: `make fuzz`.

`KTDEVAL_FUZZ_RUNS` executions each (default 1,000,000), of one parser where it is named. With
`atheris` installed and `--engine atheris` inputs follow the coverage of ktdeval's own modules, in a
process for each parser; the default engine changes, cuts and joins seeds by a fixed seed of chance.
Exit code 1: a parser raised what is not typed, or took more than two seconds of the processor for
one input.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import subprocess
import sys
import tempfile
import time
import tomllib
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from support.paths import REPOSITORY

if TYPE_CHECKING:
    from support.fuzzing.fuzz_kit import Parser

MAX_SECONDS = 2.0  # for one input
MAX_BYTES = 20_000
_TOKENS = (
    b"null", b"true", b"-1", b"1e999", b"NaN", b"{", b"}", b"[", b"]", b'"', b":", b",", b"\\u0000",
    b"\\ud800", b"\x00", b"\xff", b"\xef\xbb\xbf", b"9" * 25, b"[" * 300, b"&a ", b"*a", b"!!set ",
    b"<<: ", b"../", b"\n", b"\r", b"\t", b"- ", b"inf", b"0x", b"'", b"```", b"=", b"2024-02-30",
)  # fmt: skip


def mutate(data: bytes, chance: random.Random) -> bytes:
    """Return a changed input."""
    changed = bytearray(data[:MAX_BYTES])
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

    return bytes(changed[:MAX_BYTES])


def fuzz(name: str, parser: Parser, runs: int, seconds: float) -> list[str]:
    """Fuzz one parser; return its defects in words, and print what was done."""
    from support.fuzzing.fuzz_kit import outcome

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

        if took > MAX_SECONDS:
            found.setdefault("slow", f"{name}: took {took:.1f} s for {data[:200]!r}")

    print(
        f"{name:<24} {done:>9,} executions, slowest {slowest * 1000:7.1f} ms, defects {len(found)}",
        flush=True,
    )

    return list(found.values())


def own_packages() -> list[str]:
    """Names of the packages of the project."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))
    return list(project["tool"]["importlinter"]["root_packages"])


def fuzz_by_coverage(name: str, runs: int, seconds: float) -> None:
    """Fuzz one parser with atheris, which ends the process."""
    import atheris

    # Modules are instrumented as they are imported. Those of other libraries are not: there are tens
    # of thousands of functions in them, and it is our own branches that inputs are to reach.
    with atheris.instrument_imports(include=own_packages()):
        from support.fuzzing.fuzz_kit import outcome
        from support.fuzzing.fuzz_parsers import parsers

        parser = parsers()[name]

    def one_input(data: bytes) -> None:
        defect = outcome(parser, data)
        if defect is not None:
            raise defect

    corpus = Path(tempfile.mkdtemp(prefix="ktdeval-corpus-"))
    for number, seed in enumerate(parser.seeds):
        (corpus / str(number)).write_bytes(seed)

    words = [
        sys.argv[0],
        str(corpus),
        f"-runs={runs}",
        f"-max_len={MAX_BYTES}",
        "-timeout=10",
        "-rss_limit_mb=4096",
    ]

    if math.isfinite(seconds):
        words.append(f"-max_total_time={max(1, round(seconds))}")

    atheris.Setup(words, one_input)
    print(f"{name}: up to {runs:,} executions by coverage", flush=True)
    atheris.Fuzz()


def each_by_coverage(names: Sequence[str], seconds: float) -> list[str]:
    """Fuzz parsers with atheris, each in a process of its own; return which ended in a defect."""
    defects = []
    for name in names:
        command = [sys.executable, __file__, name, "--engine", "atheris", "--seconds", str(seconds)]
        code = subprocess.run(command, check=False).returncode
        if code != 0:
            defects.append(f"{name}: atheris ended with exit code {code}; its report is above")

    return defects


def each_by_changes(
    chosen: Sequence[str], known: Mapping[str, Parser], runs: int, seconds: float
) -> list[str]:
    """Fuzz parsers one after another; return their defects in words."""
    defects = []
    for name in chosen:
        defects += fuzz(name, known[name], runs, seconds)

    return defects


def main(words: Sequence[str]) -> int:
    """Run; return the exit code."""
    chosen = argparse.ArgumentParser(description=__doc__)
    chosen.add_argument("names", nargs="*", help="parsers; all by default")
    chosen.add_argument("--engine", choices=("changes", "atheris"), default="changes")
    chosen.add_argument("--seconds", type=float, default=math.inf, help="most for a parser")
    options = chosen.parse_args(words)
    runs = int(os.environ.get("KTDEVAL_FUZZ_RUNS", "1000000"))

    if options.engine == "atheris" and len(options.names) == 1:
        fuzz_by_coverage(options.names[0], runs, options.seconds)
        return 0

    from support.fuzzing.fuzz_parsers import parsers

    known = parsers()
    names = options.names or list(known)

    if options.engine == "atheris":
        defects = each_by_coverage(names, options.seconds)
    else:
        defects = each_by_changes(names, known, runs, options.seconds)

    for defect in defects:
        print(defect)

    return 1 if defects else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
