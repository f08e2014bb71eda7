"""Documents at scale: seconds and memory to import, store, load and search a table, and how they
grow with its size.

    python benchmarks/bench_documents.py [--sizes 10000,100000,1000000] [--characters 600]

Each size runs in a process of its own, so that its peak memory is its own. Exponents are slopes of
log seconds over log items between the two largest sizes. A search asks for the items of 20 days,
filed under 30 of 500 codes, at one of 2,000 closes.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from ktdeval.market import NO_DOCUMENTS, load_snapshot, save_snapshot
from ktdeval.testing.markets import tiny_snapshot
from ktdeval_raw_markets.sources.document_files import read_documents

DAYS, CODES, SEARCHES = 2000, 500, 500


def write_items(path: Path, count: int, characters: int) -> None:
    """Write so many items over the days, in order, as JSON lines."""
    rng, start = np.random.default_rng(1), datetime(2016, 1, 1, tzinfo=UTC)
    letters = rng.integers(97, 123, (4096, 8), dtype=np.uint8).tobytes().decode("ascii")
    with path.open("w", encoding="ascii") as stream:
        for number in range(count):
            place = number * 131 % (len(letters) - characters)
            moment = (start + timedelta(days=DAYS * number / count)).isoformat()
            row = {
                "published_at": moment,
                "source": "wire",
                "kind": "news",
                "assets": f"{600000 + number * 7919 % CODES}.SH",
            }
            stream.write(
                json.dumps(
                    {**row, "title": f"Title {number}", "text": letters[place : place + characters]}
                )
                + "\n"
            )


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of some work, and what it returned."""
    start = time.perf_counter()
    made = work()
    return time.perf_counter() - start, made


def one_size(count: int, characters: int) -> dict[str, float]:
    """Seconds by what was done, and the peak in MiB."""
    seconds: dict[str, float] = {}
    market = tiny_snapshot({"600000.SH": [1.0, 1.0]})
    days = np.arange(np.datetime64("2016-01-01"), np.datetime64("2016-01-01") + DAYS)
    with tempfile.TemporaryDirectory() as folder:
        lines, stored = Path(folder) / "items.jsonl", Path(folder) / "m"
        write_items(lines, count, characters)
        seconds["import"], market = timed(lambda: replace(market, documents=read_documents(lines)))
        seconds["save"], _ = timed(lambda: save_snapshot(market, stored))
        market = replace(market, documents=NO_DOCUMENTS)
        seconds["load"], loaded = timed(lambda: load_snapshot(stored).documents)
    codes = [f"{600000 + number}.SH" for number in range(30)]
    seconds["first search"], _ = timed(lambda: loaded.as_of(days).rows(20, codes))
    rows = np.random.default_rng(2).integers(30, DAYS, SEARCHES)
    seconds["search"] = (
        timed(lambda: [loaded.as_of(days[:row]).rows(20, codes) for row in rows])[0] / SEARCHES
    )
    view = loaded.as_of(days)
    seconds["read"] = (
        timed(lambda: [view[row] for row in view.rows(DAYS)[:SEARCHES].tolist()])[0] / SEARCHES
    )
    return {**seconds, "peak MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def main() -> None:
    """Print a line for each size, and exponents."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--sizes", default="10000,100000,1000000", help="numbers of items")
    parser.add_argument("--characters", type=int, default=600, help="length of a text")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one is not None:
        print(json.dumps(one_size(options.one, options.characters)))
        return
    found: dict[int, dict[str, float]] = {}
    for size in sorted(map(int, options.sizes.split(","))):
        words = [
            sys.executable,
            __file__,
            "--one",
            str(size),
            "--characters",
            str(options.characters),
        ]
        found[size] = json.loads(
            subprocess.run(words, check=True, capture_output=True, text=True).stdout
        )
        print(
            f"{size:>9} items: "
            + ", ".join(
                f"{name} {value:.3g}{'' if 'MiB' in name else ' s'}"
                for name, value in found[size].items()
            )
        )
    if len(found) > 1:
        small, large = sorted(found)[-2:]
        grown = {
            name: math.log(found[large][name] / found[small][name]) / math.log(large / small)
            for name in found[large]
        }
        print("exponents: " + ", ".join(f"{name} {value:.2f}" for name, value in grown.items()))


if __name__ == "__main__":
    main()
