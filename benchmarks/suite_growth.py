"""Exponents: how cost grows with names, days, episodes, calls in flight, cards of a board, and what
a second worker brings; a grid beside `ktdeval run`, and how long it takes to begin and to end.
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import bench_attribution
import bench_calls
import numpy as np
from bench_board import build
from figures import Figure, Scale, growth, skipped

from ktdeval.attribution import attribute, fit_factors
from ktdeval.calls import StopSignal
from ktdeval.market import MarketSnapshot
from ktdeval.registry import load_plugins
from ktdeval.runner import RunConfig
from ktdeval.runner.execution.run import execute_run, prepare_run
from ktdeval.trading.market_tape import MarketTape
from ktdeval.trading.types import TradingConfig
from support.board.board_forge import forge_board

GROUP = "growth"


def figures(scale: Scale) -> list[Figure]:
    """Measure each exponent between its smallest and its largest size."""
    sizes = {
        "quick": ((300, 600), (43, 86), (1, 4), (1, 4), (4, 8)),
        "usual": ((300, 1225, 5000), (43, 500, 5000), (10, 100, 1000), (1, 50, 200), (50, 200)),
        "full": (
            (300, 1225, 5000),
            (43, 500, 5000),
            (1, 100, 10_000),
            (1, 50, 200),
            (1000, 5000, 20_000),
        ),
    }[scale]
    names, days, episodes, in_flight, cards = sizes
    return [
        _names(names),
        _days(days),
        _episodes(episodes),
        _in_flight(in_flight, 4 if scale == "quick" else 20),
        _cards(cards),
        _workers(scale),
        *_beside_run(scale),
    ]


def _cpu_s(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def _least(work: Callable[[], object], min_s: float = 0.3) -> float:
    """Least CPU seconds of at least three times, and of as many as take `min_s`."""
    times: list[float] = []
    while len(times) < 3 or sum(times) < min_s:
        times.append(_cpu_s(work))
    return min(times)


def _widened(market: MarketSnapshot, names: int) -> MarketSnapshot:
    """A market of so many names: the 300 repeated, each time at other prices."""
    copies = -(-names // len(market.codes))
    scale = np.repeat(1.0 + 0.01 * np.arange(copies), len(market.codes))[:names]
    codes = tuple(f"6{number:05d}.SH" for number in range(names))

    def wide(values: np.ndarray) -> np.ndarray:
        return np.tile(values, (1, copies))[:, :names]

    prices = {
        name: wide(getattr(market, name)) * scale for name in ("open", "high", "low", "close")
    }
    others = {
        name: wide(getattr(market, name)) for name in ("volume", "amount", "factor", "member")
    }
    industries = tuple(f"industry {number % 28:02d}" for number in range(names))
    return dataclasses.replace(
        market, codes=codes, names=codes, industries=industries, **prices, **others
    )


def _names(sizes: tuple[int, ...]) -> Figure:
    days = 43
    narrow = bench_attribution.generate_market(400)
    costs = []
    for size in sizes:
        market = _widened(narrow, size)
        last = len(market.days) - 1

        def work(market: MarketSnapshot = market, last: int = last) -> None:
            fit_factors(market, last - days + 1, last)
            MarketTape.from_snapshot(market, TradingConfig())

        costs.append(_least(work))

    what = f"CPU time of factors, fit with industries and tape, {days} days"
    return growth(f"names {sizes[0]:,} → {sizes[-1]:,}", sizes, costs, what)


def _days(sizes: tuple[int, ...]) -> Figure:
    costs = []
    for size in sizes:
        market = bench_attribution.generate_market(size + 300)
        first = len(market.days) - size
        ledger = bench_attribution.make_ledger(market, first, 0, size)

        def work(market: MarketSnapshot = market, first: int = first, ledger=ledger) -> None:  # type: ignore[no-untyped-def]
            fitted = fit_factors(market, first, len(market.days) - 1)
            assert attribute(ledger, market, fitted).linked.lines is not None

        costs.append(_least(work))

    what = "CPU time of factors, fit, attribution and linking, 300 names"
    return growth(f"days {sizes[0]:,} → {sizes[-1]:,}", sizes, costs, what)


def _episodes(sizes: tuple[int, ...]) -> Figure:
    _run_episodes(2)  # imports, and the market where it is not cached yet
    costs = [_run_episodes(size) for size in sizes]
    what = "CPU time of a run without a key, one step an episode: plan, run, compaction, card"
    return growth(f"episodes {sizes[0]:,} → {sizes[-1]:,}", sizes, costs, what)


def _run_episodes(count: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        config = RunConfig(
            model="builtin/random",
            tasks=("blinded_memory_only",),
            windows=("W1",),
            seeds=count,
            limit=1,
            out=f"{folder}/run",
        )

        def work() -> None:
            run = prepare_run(config, load_plugins(), StopSignal())
            try:
                result = execute_run(run)
            finally:
                run.close()
            assert not result.failed, result.failed[0].error

        return _cpu_s(work)


def _in_flight(sizes: tuple[int, ...], calls_each: int) -> Figure:
    costs = []
    with bench_calls.stub_server(50) as port:
        bench_calls.client_calls(port, 10, 5)
        for size in sizes:
            taken = [bench_calls.client_calls(port, size * calls_each, size)[1] for _ in range(3)]
            costs.append(min(taken))

    what = f"CPU time of durable calls, {calls_each} a thread"
    return growth(f"calls in flight {sizes[0]:,} → {sizes[-1]:,}", sizes, costs, what)


def _cards(sizes: tuple[int, ...]) -> Figure:
    costs = []
    with tempfile.TemporaryDirectory() as name:
        for size in sizes:
            board = Path(name) / f"board-{size}"
            forge_board(board, size, 1, 2, decisions=False)
            costs.append(build(board, Path(name) / f"site-{size}")[1])

    what = "CPU time of all processes of `leaderboard build`, two windows a card"
    return growth(f"cards of a board {sizes[0]:,} → {sizes[-1]:,}", sizes, costs, what)


def _workers(scale: Scale) -> Figure:
    """Speed-up of two workers of `ktdeval grid`."""
    name = "workers 1 → 2"
    listed = subprocess.run(
        [sys.executable, "-m", "ktdeval", "grid", "--help"],
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode:
        return skipped(GROUP, name, "this version has no command `ktdeval grid`")

    seconds = {workers: _grid(workers, scale).whole_s for workers in (1, 2)}
    return Figure(
        group=GROUP,
        name=name,
        ours=seconds[2],
        unit="s",
        peer_name="one worker",
        peer=seconds[1],
        ratio=seconds[1] / seconds[2],
        bar=1.8,
        direction="at_least",
        note="wall; means something only where two cores are idle",
    )


def _beside_run(scale: Scale) -> list[Figure]:
    """A grid of two workers beside `ktdeval run` of the same episodes."""
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-m", "ktdeval", "run", "--model", "builtin/momentum"]
        began = time.perf_counter()
        subprocess.run(
            [*words, *_episodes_of(scale), "--out", f"{folder}/run"],
            check=True,
            capture_output=True,
        )
        run_s = time.perf_counter() - began

    grid = _grid(2, scale)
    beside = Figure(
        group=GROUP,
        name="grid of two workers",
        ours=grid.whole_s,
        unit="s",
        peer_name="ktdeval run",
        peer=run_s,
        ratio=run_s / grid.whole_s,
        bar=1 / 0.6,
        direction="at_least",
        note="wall, with tables and pages; means something only where two cores are idle",
    )
    edges = Figure(
        group=GROUP,
        name="start and end of a grid",
        ours=grid.start_s + grid.end_s,
        unit="s",
        peer_name="",
        peer=None,
        ratio=grid.start_s + grid.end_s,
        bar=3.0,
        direction="at_most",
        note=(
            f"wall: {grid.start_s:.1f} s before the first episode, {grid.end_s:.1f} s after the"
            " last for cards, tables and pages"
        ),
    )
    return [beside, edges]


class _GridTimes(NamedTuple):
    """Wall seconds of a grid: of all, before its first episode, and after its last."""

    whole_s: float
    start_s: float
    end_s: float


def _episodes_of(scale: Scale) -> list[str]:
    seeds = "1" if scale == "quick" else "5"
    return ["--tasks", "blinded_open_research", "--windows", "W*", "--seeds", seeds]


def _grid(workers: int, scale: Scale) -> _GridTimes:
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-m", "ktdeval", "grid", "--models", "builtin/momentum"]
        words += _episodes_of(scale)
        words += ["--workers", str(workers), "--out", f"{folder}/grid", "--yes", "--json"]
        began_s = time.time()
        subprocess.run(words, check=True, capture_output=True)
        ended_s = time.time()

        first_s = ended_s
        last_s = began_s
        for path in Path(folder, "grid", "done").glob("*.json"):
            done = json.loads(path.read_bytes())
            if "finished_at" in done:  # of an episode, and not of a job
                finished_s = datetime.fromisoformat(done["finished_at"]).timestamp()
                first_s = min(first_s, finished_s - done["seconds"])
                last_s = max(last_s, finished_s)

    return _GridTimes(ended_s - began_s, first_s - began_s, ended_s - last_s)
