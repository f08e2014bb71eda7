"""Speed of the attribution library beside pandas rolling windows and a loop of daily statsmodels
regressions.

    python benchmarks/bench_attribution.py [--days 3000] [--repeats 7]

Everything runs on generated data in this one process; each figure is the best of the repeats, which
are interleaved, so that a busy machine hurts both sides alike. Both sides' numbers are checked to
be equal before they are timed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import statsmodels.api as sm

from ktdeval.attribution.asset_exposures import exposures
from ktdeval.attribution.decompose import attribute
from ktdeval.attribution.factor_returns import Fit, fit_factors
from ktdeval.attribution.regression import weighted_least_squares
from ktdeval.attribution.style_factor_panel import FACTOR_NAMES, factor_panel
from ktdeval.market.snapshots.snapshot import MarketSnapshot, SnapshotMeta
from ktdeval.testing import step_record
from ktdeval.trading.ledger import Ledger

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from support.figures.portfolios import decompose

N_ASSETS, N_WINDOW, N_HELD, N_FACTORS = 300, 548, 20, 9
TRAJECTORIES = 600

FloatArray = npt.NDArray[np.float64]


def generate_market(n_days: int, seed: int = 1) -> MarketSnapshot:
    """Random walks with a factor-like common part, 1 % suspensions."""
    chance = np.random.default_rng(seed)
    shape = (n_days, N_ASSETS)
    steps = 0.012 * chance.standard_t(5, shape) + 0.01 * chance.standard_normal((n_days, 1))
    close = 20.0 * np.exp(np.cumsum(np.clip(steps, -0.09, 0.09), axis=0) % 3.0)
    open_ = close * np.exp(chance.normal(0.0, 0.006, shape))
    volume = chance.lognormal(13.0, 0.5, shape)
    gaps = chance.random(shape) < 0.01
    for array in (close, open_):
        array[gaps] = np.nan
    volume[gaps] = 0.0
    codes = tuple(f"609{number:03d}.SH" for number in range(N_ASSETS))
    return MarketSnapshot(
        meta=SnapshotMeta("benchmark", "generated", True, True, "INDEX"),
        days=np.datetime64("2012-01-02", "D") + np.arange(n_days),
        codes=codes,
        names=codes,
        industries=("unknown",) * N_ASSETS,
        open=open_,
        high=np.fmax(open_, close) * 1.004,
        low=np.fmin(open_, close) * 0.996,
        close=close,
        volume=volume,
        amount=np.where(gaps, np.nan, volume * np.where(gaps, 1.0, close)),
        factor=np.ones(shape),
        member=np.ones(shape, dtype=bool),
        indices={"INDEX": np.ones(n_days)},
        index_names={"INDEX": "index"},
    )


def pandas_panel(market: MarketSnapshot) -> FloatArray:
    """The nine factors with pandas rolling windows, as one would write them."""
    close, open_ = pd.DataFrame(market.adjusted_close), pd.DataFrame(market.adjusted_open)
    volume, amount = pd.DataFrame(market.volume / market.factor), pd.DataFrame(market.amount)
    known = close.ffill()
    before = known.shift(1)
    returns = close / before - 1.0
    count = returns.rolling(60, min_periods=40).count()
    change = np.log(volume.where(volume > 0)).diff()
    both = returns.notna() & change.notna()
    traded = amount.where(close.notna() & (amount > 0)).rolling(20, min_periods=14)
    frames = (
        (known.shift(20) / known.shift(251) - 1.0).where(
            close.rolling(252, min_periods=1).count() >= 168
        ),
        np.log1p(returns).rolling(60, min_periods=40).std() * 252**0.5,
        np.log((returns.abs() / amount.where(amount > 0)).rolling(20, min_periods=14).mean()),
        (open_ / before - 1.0).rolling(20, min_periods=14).mean(),
        (close / open_ - 1.0).rolling(20, min_periods=14).mean(),
        -returns.rolling(60, min_periods=40).skew() * (count - 2) / np.sqrt(count * (count - 1)),
        returns.where(both).rolling(20, min_periods=14).corr(change.where(both)),
        known / pd.DataFrame(market.high * market.factor).rolling(252, min_periods=168).max(),
        traded.std() / traded.mean(),
    )
    return np.stack([frame.to_numpy() for frame in frames])


def best_times(functions: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Name -> best wall time in ms; the functions take turns."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(repeats):
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            times[name].append((time.perf_counter() - start) * 1e3)
    return {name: min(values) for name, values in times.items()}


def bench_panel(market: MarketSnapshot, repeats: int) -> None:
    """Nine factors of every day."""
    rows = range(len(market.days))
    ours, theirs = factor_panel(market, rows), pandas_panel(market)
    for place, name in enumerate(FACTOR_NAMES):
        np.testing.assert_allclose(ours[place], theirs[place], rtol=1e-6, atol=1e-8, err_msg=name)
    best = best_times(
        {"ours": lambda: factor_panel(market, rows), "pandas": lambda: pandas_panel(market)},
        repeats,
    )
    print(f"nine factors, {N_ASSETS} × {len(rows)} days")
    print(f"  pandas rolling                      {best['pandas']:8.1f} ms")
    print(
        f"  ktdeval                             {best['ours']:8.1f} ms  "
        f" {best['pandas'] / best['ours']:6.1f} x"
    )


class Window(NamedTuple):
    """What a regression loop reads: a fit's own arrays, and portfolios [M, D, N]."""

    fitted: Fit
    portfolios: FloatArray


def statsmodels_attribution(window: Window, portfolio: FloatArray) -> tuple[FloatArray, FloatArray]:
    """One trajectory with a regression a day: style contributions [D, K] and selection [D]."""
    fitted = window.fitted
    styles, selection = np.empty((len(fitted.days), N_FACTORS)), np.empty(len(fitted.days))
    for day in range(len(fitted.days)):
        used = fitted.weights[day] > 0
        design = fitted.exposures.design[day].T
        result = sm.WLS(
            fitted.returns[day, used], design[used], weights=fitted.weights[day, used]
        ).fit()
        held = portfolio[day] @ design
        styles[day] = (held * result.params)[1:]
        selection[day] = portfolio[day] @ fitted.returns[day] - held @ result.params
    return styles, selection


def refitted(fitted: Fit) -> Fit:
    """The same fit made again from exposures and returns, with nothing cached."""
    sections = weighted_least_squares(fitted.exposures.design, fitted.returns, fitted.weights)
    known = {
        name: value for name, value in vars(fitted).items() if name in Fit.__dataclass_fields__
    }
    coefficients = sections.coefficients
    return Fit(
        **{
            **known,
            "common": coefficients[:, 0],
            "style": coefficients[:, 1:],
            "cross_sections": sections,
        }
    )


def bench_regressions(market: MarketSnapshot, repeats: int) -> None:
    """One and ten attributions from given exposures, as arrays of weights."""
    last = len(market.days) - 1
    chance = np.random.default_rng(2)
    portfolios = chance.dirichlet(np.full(N_ASSETS, 0.1), (10, N_WINDOW))
    window = Window(fit_factors(market, last - N_WINDOW + 1, last), portfolios)
    ours, theirs = (
        decompose(portfolios[0], window.fitted),
        statsmodels_attribution(window, portfolios[0]),
    )
    np.testing.assert_allclose(ours.style, theirs[0], rtol=0, atol=1e-12)
    np.testing.assert_allclose(ours.selection, theirs[1], rtol=0, atol=1e-12)
    best = best_times(
        {
            "loop": lambda: statsmodels_attribution(window, portfolios[0]),
            "fit": lambda: refitted(window.fitted),
            "one": lambda: decompose(portfolios[0], refitted(window.fitted)),
            "ten": lambda: decompose(portfolios, refitted(window.fitted)),
        },
        repeats,
    )
    print(
        f"attribution from given exposures, {N_WINDOW} days × {N_ASSETS} names × {N_FACTORS}"
        " factors"
    )
    print(f"  statsmodels loop, one trajectory    {best['loop']:8.1f} ms")
    print(
        f"  ktdeval, factor returns alone       {best['fit']:8.1f} ms  "
        f" {best['loop'] / best['fit']:6.1f} x"
    )
    print(
        f"  ktdeval, one trajectory             {best['one']:8.1f} ms  "
        f" {best['loop'] / best['one']:6.1f} x"
    )
    print(
        f"  ktdeval, ten that share the fit     {best['ten']:8.1f} ms  "
        f" {10 * best['loop'] / best['ten']:6.1f} x"
    )


def make_ledger(market: MarketSnapshot, first: int, seed: int, days: int = N_WINDOW) -> Ledger:
    """Twenty names a day drawn anew, four fills a day: the shape of an episode, not a strategy."""
    chance = np.random.default_rng(seed)
    steps, nav = [], 100_000_000
    for step in range(days):
        columns = np.sort(chance.choice(N_ASSETS, N_HELD, replace=False))
        nav = int(nav * (1.0 + 0.01 * chance.standard_normal()))
        codes = [market.codes[column] for column in columns]
        orders = [
            {
                "code": code,
                "stock_id": None,
                "side": "BUY",
                "confidence": 0.5,
                "reason": "",
                "target_weight": None,
                "shares": 100,
                "status": "filled",
                "rule": None,
                "message": "",
                "filled_shares": 100,
                "price_ticks": 200_000,
                "notional_minor": 200_000,
                "fee_minor": 500,
            }
            for code in codes[:4]
        ]
        positions = [
            {
                "code": code,
                "shares": 100,
                "locked": 0,
                "price_ticks": 1,
                "value_minor": nav // (N_HELD + 1),
            }
            for code in codes
        ]
        steps.append(
            step_record(
                market, step, first + step, positions=positions, orders=orders, nav_minor=nav
            )
        )
    return Ledger({}, 100_000_000, steps)


def bench_ledgers(market: MarketSnapshot, repeats: int) -> None:
    """From a snapshot and ledgers to attributions, exposures included."""
    first = len(market.days) - N_WINDOW
    last = len(market.days) - 1
    ledgers = [make_ledger(market, first, seed) for seed in range(10)]
    fitted = fit_factors(market, first, last)
    best = best_times(
        {
            "exposures": lambda: exposures(market, range(first, last + 1)),
            "fit": lambda: fit_factors(market, first, last),
            "ledgers": lambda: [attribute(ledger, market, fitted).linked for ledger in ledgers],
        },
        repeats,
    )
    each = best["ledgers"] / len(ledgers)
    print(f"from ledgers, {N_WINDOW} days × {N_ASSETS} names, {N_HELD} held")
    print(f"  exposures and weights               {best['exposures']:8.1f} ms")
    print(f"  exposures and factor returns        {best['fit']:8.1f} ms   once a window")
    print(f"  attribution and linking of a ledger {each:8.1f} ms")
    print(
        f"  {TRAJECTORIES} trajectories of one window    "
        f" {(best['fit'] + TRAJECTORIES * each) / 1e3:8.1f} s    one core"
    )


def main() -> None:
    """Print every figure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--days", type=int, default=3000, help="trading days of the market")
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    market = generate_market(options.days)
    bench_panel(market, options.repeats)
    bench_regressions(market, options.repeats)
    bench_ledgers(market, options.repeats)


if __name__ == "__main__":
    main()
