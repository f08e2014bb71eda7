"""Kernels of attribution and of the simulator, beside pandas, statsmodels and Qlib."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

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

from figures import Figure, Scale, faster, in_turns, skipped
from ktdeval.attribution import attribute, factor_panel, fit_factors
from ktdeval.attribution.asset_exposures import exposures
from ktdeval.attribution.factor_returns import Fit
from ktdeval.market import MarketSnapshot
from ktdeval.trading.market_tape import MarketTape
from portfolios import decompose

GROUP = "kernels"
FloatArray = npt.NDArray[np.float64]
INDUSTRIES = 28
TRAJECTORIES = 10


def figures(scale: Scale) -> list[Figure]:
    """Measure the kernels."""
    days = 600 if scale == "quick" else 3000
    repeats = 1 if scale == "quick" else 7
    return [
        _panel(generate_market(days), repeats),
        *_attributions(generate_market(days), repeats, 20 if scale == "quick" else N_WINDOW),
        _simulator(repeats),
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
        took["ours"].cpu_s,
        ("pandas rolling windows", took["pandas"].cpu_s),
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
        max(1, repeats // 2),
        {
            "one": lambda: decompose(window.portfolios[0], window.refitted()),
            "ten": lambda: decompose(window.portfolios, window.refitted()),
            "ledgers": from_ledgers,
            "loop": lambda: window.by_statsmodels(window.portfolios[0]),
        },
    )
    loop = took["loop"].cpu_s
    peer = "statsmodels, a regression a day and trajectory"
    size = f"{len(rows)} days × {N_ASSETS} names"
    note = f"CPU time; nine styles and {INDUSTRIES} industries on both sides, exposures given"
    ten_loops = (peer, TRAJECTORIES * loop)
    of_ledgers = f"{note}; ours reads ledgers, adds timing and fees, and links"
    return [
        faster(GROUP, f"attribution, {size}", took["one"].cpu_s, (peer, loop), None, note),
        faster(
            GROUP,
            f"attribution of ten trajectories, {size}",
            took["ten"].cpu_s,
            ten_loops,
            80,
            note,
        ),
        faster(
            GROUP,
            f"attribution and linking of ten ledgers, {size}",
            took["ledgers"].cpu_s,
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


def _simulator(repeats: int) -> Figure:
    """Top-20 strategy with every rule on, beside Qlib where a Python with it is given."""
    name = "simulator, top 20 of 300 names, 546 days"
    python = os.environ.get("KTDEVAL_QLIB_PYTHON", "")
    peers = os.environ.get("KTDEVAL_PEERS", "")
    if not python or not peers:
        need = "set KTDEVAL_QLIB_PYTHON (a Python with pyqlib) and KTDEVAL_PEERS (its scripts)"
        return skipped(GROUP, name, need)

    with tempfile.TemporaryDirectory() as folder:
        for script in ("gen_market.py", "qlib_bt.py"):
            shutil.copyfile(Path(peers) / script, Path(folder) / script)

        subprocess.run([python, "gen_market.py"], check=True, capture_output=True, cwd=folder)
        market = bench_simulator.load_market(Path(folder) / "market.npz")
        before = _simulate_cpu_s(market, repeats)
        run = subprocess.run(
            [python, "qlib_bt.py", "5", str(max(1, repeats // 4))],
            check=True,
            capture_output=True,
            text=True,
            cwd=folder,
        )
        after = _simulate_cpu_s(market, repeats)

    qlib = json.loads(run.stdout.strip().splitlines()[-1])
    return faster(
        GROUP,
        name,
        (before + after) / 2,
        (f"Qlib {qlib['version']}", float(qlib["loop_cpu_s"])),
        100.0,
        "CPU time of the loop; ours before and after Qlib's",
    )


def _simulate_cpu_s(market: bench_simulator.Market, repeats: int) -> float:
    tape = MarketTape.from_snapshot(market.snapshot, bench_simulator.CONFIG)
    took = []
    for _ in range(repeats):
        begin = time.process_time()
        bench_simulator.simulate(tape, market.signal, 5)
        took.append(time.process_time() - begin)

    return float(np.median(took))
