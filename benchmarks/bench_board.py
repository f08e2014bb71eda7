"""The static site of a large leaderboard: how long a build takes, how large the site is, how much a
reader's browser is sent.

    python benchmarks/bench_board.py
    python benchmarks/bench_board.py --cards 1000,5000,20000 --windows 2 --divisions 2 --keep FOLDER

Boards are forged (`tests/support/board/board_forge.py`): valid cards with drawn results, daily series and
decisions; of more than 500 entrants the rest are copies under other names and keys. Last come
the exponents of time and size between the first board and the last, and with `--view RUN` the size
of a run's pages. Each build is a process of its own, beside a floor in the same run: every file of the
board read and its JSON parsed once, in one process.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from support.board.board_copies import copy_entrants
from support.board.board_forge import forge_board

_MB = 1e6
_MAX_FORGED = 500  # entrants that are drawn; forging one takes a tenth of a second


def build(board: Path, out: Path) -> tuple[float, float, float]:
    """Wall seconds, CPU seconds of all processes, and MiB that the largest of them needed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    words = [
        sys.executable,
        "-m",
        "ktdeval",
        "leaderboard",
        "build",
        str(board),
        "--out",
        str(out),
    ]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (
        wall,
        after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        after.ru_maxrss / 1024,
    )


def parse_all(board: Path) -> float:
    """Seconds to read and parse every JSON file of a board once."""
    start = time.perf_counter()
    for path in board.rglob("*.json"):
        json.loads(path.read_bytes())
    return time.perf_counter() - start


def board_page(site: Path, division: str) -> list[Path]:
    """What a browser that opens the board's first page is sent before its table stands."""
    page = (site / "index.html").read_text(encoding="utf-8")
    assets = [
        path
        for path in sorted((site / "assets").iterdir())
        if path.is_file() and f"assets/{path.name}" in page
    ]
    return [
        site / "index.html",
        *assets,
        site / "data/board.js",
        site / f"data/division/{division}/all.js",
    ]


def sizes(paths: list[Path]) -> tuple[int, int]:
    """Bytes as stored, and packed as hosts send them."""
    contents = [path.read_bytes() for path in paths]
    return sum(map(len, contents)), sum(len(gzip.compress(content, 6)) for content in contents)


def report(cards: int, options: argparse.Namespace, folder: Path) -> tuple[float, float]:
    """Forge, build and measure one board; return CPU seconds and bytes of the site."""
    board, site = folder / f"board-{cards}", folder / f"site-{cards}"
    start = time.perf_counter()
    forged = max(1, round(min(cards, _MAX_FORGED) / options.divisions))
    forge_board(
        board, forged, options.divisions, options.windows, decisions=not options.no_decisions
    )
    copy_entrants(board, cards)
    stored = sum(path.stat().st_size for path in board.rglob("*") if path.is_file())
    print(
        f"{cards:,} cards: {options.divisions} divisions, {options.windows} windows;"
        f" {stored / _MB:,.0f} MB",
        end="",
    )
    print(f" (forged in {time.perf_counter() - start:.0f} s)")
    wall, cpu, memory = build(board, site)
    floor = parse_all(board)
    print(f"  build           {wall:6.1f} s wall  {cpu:6.1f} s CPU  {memory:,.0f} MiB peak")
    print(f"    of the floor  {wall / floor:6.2f} x     {cpu / floor:6.2f} x")
    files = [path for path in site.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files)
    print(
        f"  site            {size / _MB:6.1f} MB in {len(files):,} files,"
        f" {size / cards / 1e3:.1f} KB a card"
    )
    division = sorted(path.name for path in (site / "data/division").iterdir())[0]
    raw, packed = sizes(board_page(site, division))
    print(f"  board page      {raw / _MB:6.2f} MB, {packed / _MB:.2f} MB packed")
    raw, packed = sizes([site / f"data/division/{division}/all.js"])
    print(f"    its table     {raw / _MB:6.2f} MB, {packed / _MB:.2f} MB packed")
    return cpu, size


def exponents(costs: dict[int, tuple[float, float]]) -> str:
    """Exponents of CPU time and size in the number of cards, from the smallest and largest board."""
    least, most = min(costs), max(costs)
    (cpu, size), (more_cpu, more_size) = costs[least], costs[most]
    reach = math.log(most / least)
    return (
        f"{least:,} -> {most:,} cards: exponent {math.log(more_cpu / cpu) / reach:.2f} of CPU time,"
        f" {math.log(more_size / size) / reach:.2f} of size"
    )


def report_view(run: Path, folder: Path) -> None:
    """View a run folder and print the size of its pages against that of the run."""
    kept = [path for part in ("episodes", "cards") for path in (run / part).rglob("*")]
    stored = sum(path.stat().st_size for path in kept if path.is_file())
    words = [sys.executable, "-m", "ktdeval", "view", str(run), "--out", str(folder / "view")]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    size = sum(path.stat().st_size for path in (folder / "view").iterdir())
    print(
        f"view of {run.name}: {size / _MB:.1f} MB of pages, {size / stored:.2f} x the run's"
        f" {stored / _MB:.1f} MB"
    )


def main() -> None:
    """Print the figures of boards of the sizes asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--cards",
        default="1000,5000,20000",
        help="numbers of cards, of all divisions together, without the baselines",
    )
    parser.add_argument("--divisions", type=int, default=2)
    parser.add_argument("--windows", type=int, default=4)
    parser.add_argument(
        "--no-decisions", action="store_true", help="boards without orders and holdings"
    )
    parser.add_argument("--view", type=Path, help="run folder whose pages are measured, too")
    parser.add_argument("--keep", type=Path, help="keep boards and sites in this folder")
    options = parser.parse_args()
    folder = options.keep or Path(tempfile.mkdtemp(prefix="bench-board-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        costs = {}
        for cards in map(int, options.cards.split(",")):
            costs[cards] = report(cards, options, folder)
            if options.keep is None:
                shutil.rmtree(folder / f"board-{cards}")
                shutil.rmtree(folder / f"site-{cards}")

        if len(costs) > 1:
            print(exponents(costs))
        if options.view is not None:
            report_view(options.view, folder)
    finally:
        if options.keep is None:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
