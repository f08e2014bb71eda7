"""Growth of a market: seconds and peak memory of an import and of runs, and how they grow with the
number of bars.

    python benchmarks/bench_growth.py [--sizes 1250,2500,5000] [--days 10] [--folder DIR]

A size is a number of names and of trading days, so 5000 is 25 million bars. Bars have every field
(prices, volume, amount, factor), come from a seed, and are written day by day before anything is
measured. Each import and run is a process of its own, whose peak is its own. Exponents are slopes
of log figures over log bars between sizes that follow each other. Files go to a temporary folder
below DIR, some 3 GiB at 5000, and are removed.
"""

from __future__ import annotations

import argparse
import itertools
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ktdeval.market import sessions

FIRST, LAST = "2001-01-02", "2023-12-29"
MODELS = {"builtin/momentum": ["--model-args", "by=return_20d_pct"], "builtin/random": []}
MEASURED = (
    "import resource, sys; from ktdeval.cli.main import main; code = main(sys.argv[1:]);"
    " print('PEAK', resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024); sys.exit(code)"
)


def days_of(
    day: np.datetime64,
    codes: pa.Array,
    rng: np.random.Generator,
    close: np.ndarray,
    factor: np.ndarray,
) -> pa.Table:
    """Bars of one day; `close` and `factor` are those of the day before and become its own."""
    count = len(close)
    # splits keep prices where a lot is affordable
    ratio = np.where(close > 30, 2.0, np.where(close < 3, 0.5, 1.0))
    factor *= ratio
    close[:] = np.round(close / ratio * np.exp(rng.normal(0, 0.015, count)), 2)
    first = np.round(close * (1 + rng.normal(0, 0.003, count)), 2)
    high, low = np.maximum(first, close) + 0.02, np.minimum(first, close) - 0.02
    volume = np.round(rng.lognormal(13, 0.5, count))
    columns = {
        "open": first,
        "high": np.round(high, 2),
        "low": np.round(low, 2),
        "close": close.copy(),
        "volume": volume,
    }
    columns |= {"amount": np.round(volume * close, 2), "factor": factor.copy()}
    return pa.table({"date": np.full(count, day), "code": codes, **columns})


def write_market(folder: Path, names: int, days: int) -> None:
    """Write bars and index levels, some days at a time."""
    rng = np.random.default_rng(names)
    codes = pa.array([f"{600000 + number}.SH" for number in range(names)])
    close, factor = np.round(rng.uniform(4, 28, names), 2), np.ones(names)
    calendar = sessions(FIRST, LAST)[-days:]
    levels = [
        "date,code,close",
        *(f"{day},000300.SH,{3000 + 0.1 * row:.2f}" for row, day in enumerate(calendar)),
    ]
    (folder / "index.csv").write_text("\n".join(levels), encoding="ascii")
    made: Iterator[pa.Table] = (days_of(day, codes, rng, close, factor) for day in calendar)
    writer = None
    while block := list(itertools.islice(made, 100)):
        table = pa.concat_tables(block)
        writer = writer or pq.ParquetWriter(folder / "bars.parquet", table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def measured(words: list[str]) -> tuple[float, float]:
    """Seconds and peak MiB of a command of ktdeval in a process of its own."""
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, *words], capture_output=True, text=True, check=False
    )
    seconds = time.perf_counter() - start
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}: {done.stderr or done.stdout}")
    return seconds, float(done.stdout.rsplit("PEAK", 1)[1])


def one_size(size: int, days: int, folder: Path) -> dict[str, tuple[float, float]]:
    """Seconds and peak MiB by what was done."""
    write_market(folder, size, size)
    market = folder / "market"
    tables = ["--bars", str(folder / "bars.parquet"), "--benchmark", str(folder / "index.csv")]
    found = {"import": measured(["data", "make", "long", *tables, "--out", str(market)])}
    window = sessions(FIRST, LAST)[-days:]
    for model, args in MODELS.items():
        words = [
            "--model",
            model,
            *args,
            "--tasks",
            "market_blinded",
            "--data",
            str(market),
            "--windows",
            f"{window[0]}:{window[-1]}",
        ]
        found[f"run {model}"] = measured([*words, "--out", str(folder / model.replace("/", "-"))])
    return found


def main() -> None:
    """Print a line for each size and step, and exponents."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--sizes", default="1250,2500,5000", help="numbers of names, and of days")
    parser.add_argument("--days", type=int, default=10, help="days of a run's window")
    parser.add_argument("--folder", type=Path, help="where temporary files go")
    options = parser.parse_args()
    before: tuple[int, dict[str, tuple[float, float]]] | None = None
    for size in sorted(map(int, options.sizes.split(","))):
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            found = one_size(size, options.days, Path(folder))
        for name, (seconds, peak) in found.items():
            line = f"{size * size:>10,} bars: {name} {seconds:.1f} s, peak {peak:,.0f} MiB"
            if before is not None:
                grown = [
                    math.log(now / then)
                    for now, then in zip((seconds, peak), before[1][name], strict=True)
                ]
                time_grown, peak_grown = (
                    one / math.log(size * size / before[0] ** 2) for one in grown
                )
                line += f"; exponents: time {time_grown:.2f}, memory {peak_grown:.2f}"
            print(line, flush=True)
        before = (size, found)


if __name__ == "__main__":
    main()
