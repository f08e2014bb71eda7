"""How often the 95 % intervals of `ktdeval.stats.bootstrap` cover the truth: the table of
`ktdeval/stats/bootstrap.py`.

    python benchmarks/coverage_intervals.py [--samples 2000] [--days 20,43,120,250,548] [--seed 0]
    python benchmarks/coverage_intervals.py --process "rare crash"

Truths: the process' mean log growth for the total return, its mean over its standard deviation for
the ratio, the median over 20,000 windows of as many days for the drawdown. Prints one line for each
kind and length, with the share of samples whose interval covered, under each process, and the
median width. Every sample gets an interval here, also one of which a day decides.

`rare crash` is no column of the table on cards: most samples of it have no crash and can't show
that there are any. With it, the share of samples is printed in which one day leaves no interval
(`ktdeval.stats.dominant_return`), and the coverage of the others.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from ktdeval.stats import bootstrap
from ktdeval.stats.bootstrap import Bootstrap, Resampling, drawdowns
from ktdeval.stats.data_limits import dominant_return

RARE_CRASH = "rare crash"
CRASH, A_DAY = (
    16.0,
    1 / 250,
)  #: a fall in standard deviations of the other days, and its probability
MEAN, SPREAD = 0.0006, 0.012
BURN_IN = 250


def noise(process: str, rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """[samples, days] with mean 0 and variance 1."""
    samples, days = shape
    if process == "iid normal":
        return rng.standard_normal(shape)
    if process == RARE_CRASH:
        falls = CRASH * ((rng.random(shape) < A_DAY) - A_DAY)
        return (rng.standard_normal(shape) - falls) / np.sqrt(1 + CRASH**2 * A_DAY * (1 - A_DAY))
    series = np.empty((samples, days + BURN_IN))
    before, variance = np.zeros(samples), np.ones(samples)
    for day in range(days + BURN_IN):
        if process == "AR(1) 0.2":
            before = 0.2 * before + np.sqrt(1 - 0.2**2) * rng.standard_normal(samples)
        elif process == "GARCH(1,1) Student t":
            # Six degrees of freedom; persistence 0.97, as daily returns of stocks have it.
            before = np.sqrt(variance) * rng.standard_t(6, samples) / np.sqrt(6 / 4)
            variance = 0.03 + 0.08 * before**2 + 0.89 * variance
        else:
            raise ValueError(process)
        series[:, day] = before
    return series[:, BURN_IN:]


def returns(process: str, rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """[samples, days] simple daily returns."""
    return MEAN + SPREAD * noise(process, rng, shape)


def measure(process: str, days: int, samples: int, seed: int) -> dict[str, tuple[float, float]]:
    """Kind -> share of samples whose interval covers the truth, and the median width."""
    number = (*bootstrap.PROCESSES, RARE_CRASH).index(process)
    rng = np.random.default_rng([seed, days, number])
    growth = float(np.mean([np.log1p(returns(process, rng, (4000, 500))).mean() for _ in range(4)]))
    truths = {
        "mean": float(np.expm1(days * growth)),
        "ratio": MEAN / SPREAD * np.sqrt(252),
        "drawdown": float(np.median(drawdowns(returns(process, rng, (20_000, days))))),
    }
    hits: dict[str, list[bool]] = {kind: [] for kind in truths}
    widths: dict[str, list[float]] = {kind: [] for kind in truths}
    is_even = []
    for sample, series in enumerate(returns(process, rng, (samples, days))):
        is_even.append(dominant_return(series) is None)
        of = Bootstrap(series, Resampling(draws=999, seed=sample, max_day_share=1.0))
        for kind, interval in (
            ("mean", of.total_return()),
            ("ratio", of.ratio()),
            ("drawdown", of.max_drawdown()),
        ):
            hits[kind].append(interval.low <= truths[kind] <= interval.high)
            widths[kind].append(interval.high - interval.low)
    if process == RARE_CRASH:
        even = np.array(is_even)
        of_even = [f"{kind} {np.mean(np.array(hits[kind])[even]):.4f}" for kind in hits]
        print(f"{days} days: one day decides in {1 - even.mean():.3f}; of the others {of_even}")
    return {kind: (float(np.mean(hits[kind])), float(np.median(widths[kind]))) for kind in truths}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("--days", default=",".join(map(str, bootstrap.DAYS)))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--process", default="", help="one process [default: those of the table]")
    options = parser.parse_args()
    processes = [options.process] if options.process else list(bootstrap.PROCESSES)
    print(f"kind, days: coverage (median width) under {' | '.join(processes)}")
    for days in map(int, options.days.split(",")):
        started = time.perf_counter()
        cells = [measure(process, days, options.samples, options.seed) for process in processes]
        for kind in cells[0]:
            print(
                f"{kind:9} {days:4}:",
                " | ".join(f"{cell[kind][0]:.4f} ({cell[kind][1]:.4f})" for cell in cells),
            )
        print(
            f"{options.samples} samples a process in {time.perf_counter() - started:.0f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
