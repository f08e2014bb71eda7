"""Kernels of attribution and of the simulator, beside pandas, statsmodels, Qlib, vectorbt and bt."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import bench_simulator
import numpy as np
import numpy.typing as npt
import statsmodels.api as sm
from bench_attribution import (
    N_ASSETS,
    N_HELD,
    N_WINDOW,
    generate_market,
    make_ledger,
    pandas_panel,
)
from figures import Figure, Scale, cpu_s, faster, in_turns, skipped

from ktdeval.attribution import attribute, factor_panel, fit_factors
from ktdeval.attribution.asset_exposures import exposures
from ktdeval.attribution.factor_returns import Fit
from ktdeval.market import MarketSnapshot
from ktdeval.trading.market_tape import MarketTape
from ktdeval.trading.types import TradingConfig
from support.figures.portfolios import decompose

GROUP = "kernels"
FloatArray = npt.NDArray[np.float64]
INDUSTRIES = 28
TRAJECTORIES = 10
PAIRS = 5


def figures(scale: Scale) -> list[Figure]:
    """Measure the kernels."""
    days = 600 if scale == "quick" else 3000
    repeats = 1 if scale == "quick" else PAIRS
    return [
        _panel(generate_market(days), repeats),
        *_attributions(generate_market(days), repeats, 20 if scale == "quick" else N_WINDOW),
        *_simulators(repeats),
    ]


def _panel(market: MarketSnapshot, repeats: int) -> Figure:
    rows = range(len(market.days))
    took = in_turns(
        repeats,
        {"ours": lambda: factor_panel(market, rows), "pandas": lambda: pandas_panel(market)},
    )
    return faster(
        GROUP,
        f"nine factors, {N_ASSETS} names × {len(rows):,} days",
        cpu_s(took["ours"]),
        ("pandas rolling windows", cpu_s(took["pandas"])),
        4.0,
        "CPU time, one core",
    )


@dataclass(frozen=True)
class _Window:
    """A fit with industries, and portfolios held on its days."""

    market: MarketSnapshot
    fitted: Fit
    portfolios: FloatArray  #: [TRAJECTORIES, days, N] weights

    def refitted(self) -> Fit:
        """Fit again from the same exposures, with nothing cached."""
        rows = self.fitted.rows
        known = self.fitted.exposures
        return fit_factors(self.market, rows.start, rows.stop - 1, "strict", known=known)

    def by_statsmodels(self, portfolio: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Attribute one trajectory with a regression a day on intercept, styles and industries:
        style contributions [D, K] and selection [D].
        """
        fitted = self.fitted
        factors = len(fitted.factor_names)
        styles = np.empty((len(fitted.days), factors))
        selection = np.empty(len(fitted.days))
        for day in range(len(fitted.days)):
            used = fitted.weights[day] > 0
            weights = fitted.weights[day, used]
            design = np.concatenate(
                [fitted.exposures.design[day].T, self._industry_columns(day, used, weights)], axis=1
            )
            returns = fitted.returns[day]
            result = sm.WLS(returns[used], design[used], weights=weights).fit()
            held = portfolio[day] @ design
            styles[day] = (held * result.params)[1 : 1 + factors]
            selection[day] = portfolio[day] @ returns - held @ result.params

        return styles, selection

    def _industry_columns(
        self, day: int, used: npt.NDArray[np.bool_], weights: FloatArray
    ) -> FloatArray:
        """[N, I - 1] columns whose coefficients are industry returns of weighted mean 0."""
        industry_of = self.fitted.industry_of[day]
        there = np.unique(industry_of[used])
        flags = (industry_of[:, None] == there).astype(float)
        total = flags[used].T @ weights
        return np.asarray(flags[:, :-1] - flags[:, -1:] * (total[:-1] / total[-1]))


def _attributions(market: MarketSnapshot, repeats: int, days: int) -> list[Figure]:
    """One and ten trajectories, from arrays of weights and from ledgers."""
    industries = tuple(f"industry {number % INDUSTRIES:02d}" for number in range(N_ASSETS))
    market = replace(market, industries=industries)
    last = len(market.days) - 1
    rows = range(last - days + 1, last + 1)
    fitted = fit_factors(market, rows.start, last, known=exposures(market, rows))
    window = _Window(market, fitted, _portfolios(len(rows)))
    _check_equal(window)
    ledgers = [make_ledger(market, rows.start, seed, days) for seed in range(TRAJECTORIES)]

    def from_ledgers() -> None:
        fit = window.refitted()
        for ledger in ledgers:
            assert attribute(ledger, market, fit).linked.lines is not None

    took = in_turns(
        repeats,
        {
            "one": lambda: decompose(window.portfolios[0], window.refitted()),
            "ten": lambda: decompose(window.portfolios, window.refitted()),
            "ledgers": from_ledgers,
            "loop": lambda: window.by_statsmodels(window.portfolios[0]),
        },
    )
    loop = cpu_s(took["loop"])
    peer = "statsmodels, a regression a day and trajectory"
    size = f"{len(rows)} days × {N_ASSETS} names"
    note = f"CPU time; nine styles and {INDUSTRIES} industries on both sides, exposures given"
    ten_loops = (peer, [TRAJECTORIES * seconds for seconds in loop])
    of_ledgers = f"{note}; ours reads ledgers, adds timing and fees, and links"
    return [
        faster(GROUP, f"attribution, {size}", cpu_s(took["one"]), (peer, loop), None, note),
        faster(
            GROUP,
            f"attribution of ten trajectories, {size}",
            cpu_s(took["ten"]),
            ten_loops,
            80,
            note,
        ),
        faster(
            GROUP,
            f"attribution and linking of ten ledgers, {size}",
            cpu_s(took["ledgers"]),
            ten_loops,
            None,
            of_ledgers,
        ),
    ]


def _portfolios(days: int) -> FloatArray:
    """[TRAJECTORIES, days, N] equal weights of names drawn anew each day."""
    chance = np.random.default_rng(2)
    weights = np.zeros((TRAJECTORIES, days, N_ASSETS))
    for trajectory in weights:
        for day in trajectory:
            day[chance.choice(N_ASSETS, N_HELD, replace=False)] = 1.0 / N_HELD

    return weights


def _check_equal(window: _Window) -> None:
    """Compare both sides before they are timed."""
    styles, selection = window.by_statsmodels(window.portfolios[0])
    ours = decompose(window.portfolios[0], window.fitted)
    np.testing.assert_allclose(ours.style, styles, rtol=0, atol=1e-12)
    np.testing.assert_allclose(ours.selection, selection, rtol=0, atol=1e-12)


@dataclass(frozen=True)
class _Backtest:
    """Backtest of a peer on the same market: a script that prints a JSON line with `version` and
    the seconds of its loop.
    """

    name: str
    variable: str  #: environment variable that names a Python with the peer
    package: str
    script: str
    n_drop: int  #: names that ours replaces a day, in a top 20
    note: str  #: what the peer does
    arguments: tuple[str, ...] = ()
    figures: tuple[tuple[str, TradingConfig], ...] = (("", bench_simulator.CONFIG),)


_BACKTESTS = (
    _Backtest(
        "Qlib",
        "KTDEVAL_QLIB_PYTHON",
        "pyqlib",
        "qlib_bt.py",
        5,
        "the same strategy, limits, lots and fees on both sides",
        ("5",),
        (("", bench_simulator.CONFIG), (", execution on", bench_simulator.WITH_EXECUTION)),
    ),
    _Backtest(
        "vectorbt",
        "KTDEVAL_BACKTESTS_PYTHON",
        "vectorbt and bt",
        "bt_vbt.py",
        20,
        "vectorbt rebalances weights daily in compiled code, without limits, T+1 and state rows",
    ),
    _Backtest(
        "bt",
        "KTDEVAL_BACKTESTS_PYTHON",
        "vectorbt and bt",
        "bt_bt.py",
        20,
        "bt rebalances weights daily, without limits and T+1",
    ),
)
_REPEATS_OF_PEER = "1"  #: measured loops of a peer's process, after one to warm up
#: the loops of peers run on one thread, so that their processor time is their time alone
_CPU_CLOCK = (
    "import runpy, sys, time; time.perf_counter = time.process_time; sys.argv = sys.argv[1:];"
    " runpy.run_path(sys.argv[0], run_name='__main__')"
)


def _simulators(pairs: int) -> list[Figure]:
    """Top-20 strategies with every rule on, beside backtests of peers where they are installed."""
    found = []
    for backtest in _BACKTESTS:
        python = os.environ.get(backtest.variable, "")
        peers = os.environ.get("KTDEVAL_PEERS", "")
        if python and peers:
            found += _beside(backtest, python, Path(peers), pairs)
            continue

        need = f"set {backtest.variable} (a Python with {backtest.package}) and KTDEVAL_PEERS"
        found.append(skipped(GROUP, _simulator_name(backtest, ""), f"{need} (its scripts)"))

    return found


def _simulator_name(backtest: _Backtest, what: str) -> str:
    return (
        f"simulator, top 20 of 300 names, {backtest.n_drop} replaced a day{what}: {backtest.name}"
    )


def _beside(backtest: _Backtest, python: str, peers: Path, pairs: int) -> list[Figure]:
    """Time a peer and ours in turns, on the market that the peers' script writes."""
    with tempfile.TemporaryDirectory() as folder:
        for script in ("gen_market.py", backtest.script):
            shutil.copyfile(peers / script, Path(folder) / script)

        subprocess.run([python, "gen_market.py"], check=True, capture_output=True, cwd=folder)
        market = bench_simulator.load_market(Path(folder) / "market.npz")
        ours: dict[str, list[float]] = {what: [] for what, _ in backtest.figures}
        theirs = []
        version = ""
        for _ in range(pairs):
            printed = _peer_run(python, backtest, Path(folder))
            version = printed["version"]
            theirs.append(float(printed["loop_s"]))
            for what, config in backtest.figures:
                ours[what].append(_simulate_cpu_s(market, backtest.n_drop, config))

    peer = (f"{backtest.name} {version}", theirs)
    note = f"CPU time of the loops of {len(market.signal) - 2} days; {backtest.note}"
    found = []
    for what, seconds in ours.items():
        found.append(faster(GROUP, _simulator_name(backtest, what), seconds, peer, None, note))

    return found


def _peer_run(python: str, backtest: _Backtest, folder: Path) -> Mapping[str, Any]:
    """Run a peer's script with its clock set to CPU time; return the figures that it prints."""
    words = [backtest.script, *backtest.arguments, _REPEATS_OF_PEER]
    run = subprocess.run(
        [python, "-c", _CPU_CLOCK, *words], check=True, capture_output=True, text=True, cwd=folder
    )
    printed: Mapping[str, Any] = json.loads(run.stdout.strip().splitlines()[-1])
    return printed


def _simulate_cpu_s(market: bench_simulator.Market, n_drop: int, config: TradingConfig) -> float:
    """CPU seconds of the loop, the median of three."""
    tape = MarketTape.from_snapshot(market.snapshot, config)
    took = []
    for _ in range(3):
        begin = time.process_time()
        bench_simulator.simulate(tape, market.signal, n_drop)
        took.append(time.process_time() - begin)

    return float(np.median(took))
