"""How often intervals that hold at all times cover the mean, and how wide they are: the tables of
docs/uncertainty.md.

    python benchmarks/anytime.py [--years 2000] [--days 250] [--seed 0]

Each law gives years of daily excess returns with mean 0 and a tracking error of 10 % a year. Whoever
follows them looks at the interval every day, and stops by a rule:

* every day: an interval counts as wrong if it was so on any day;
* first significant: at the first day whose interval leaves out 0, or the last one;
* largest t: at the day with the largest |mean| / standard error, from the second on.

"Wins" are years in which an interval was above 0 on some day: as the mean is 0, each is a placebo
that looks skilled. The fixed interval is mean +- 1.96 standard errors, from day 20 on.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ktdeval.stats import asymptotic_sequence, mixture_variance, symmetric_sequence

Years = npt.NDArray[np.float64]
"""[years, days] of returns, or of ends of intervals."""

TRACKING_ERROR = 0.10
BURN_IN = 200
FIRST_FIXED = 20

RULES = ("every day", "first significant", "largest t")
KINDS = ("symmetric", "asymptotic", "fixed")


# ---- laws, each with mean 0 and variance 1


def normal(rng: np.random.Generator, years: int, days: int) -> Years:
    """Independent normal days."""
    return rng.standard_normal((years, days))


def heavy(rng: np.random.Generator, years: int, days: int) -> Years:
    """Student's t with three degrees of freedom."""
    return rng.standard_t(3, (years, days)) / math.sqrt(3.0)


def clustered(rng: np.random.Generator, years: int, days: int) -> Years:
    """GARCH(1,1) with a persistence of 0.95."""
    found = np.empty((years, days + BURN_IN))
    variance = np.ones(years)
    for day in range(days + BURN_IN):
        found[:, day] = np.sqrt(variance) * rng.standard_normal(years)
        variance = 0.05 + 0.10 * found[:, day] ** 2 + 0.85 * variance
    return found[:, BURN_IN:]


def skewed(rng: np.random.Generator, years: int, days: int) -> Years:
    """Gamma days with a skewness of -1, as of stock indices."""
    shape = 4.0
    return (shape - rng.gamma(shape, 1.0, (years, days))) / math.sqrt(shape)


def correlated(part: float) -> Callable[[np.random.Generator, int, int], Years]:
    """AR(1): a part of each day comes again on the next."""

    def draw(rng: np.random.Generator, years: int, days: int) -> Years:
        found = np.empty((years, days))
        before = rng.standard_normal(years)
        for day in range(days):
            shock = rng.standard_normal(years)
            before = part * before + math.sqrt(1.0 - part**2) * shock
            found[:, day] = before
        return found

    return draw


def switching(rng: np.random.Generator, years: int, days: int) -> Years:
    """Calm and wild regimes of some 50 days, the wild ones with three times the volatility."""
    found = np.empty((years, days))
    is_wild = rng.random(years) < 0.5
    scale = 1.0 / math.sqrt((1.0 + 9.0) / 2.0)
    for day in range(days):
        volatility = np.where(is_wild, 3.0, 1.0) * scale
        found[:, day] = volatility * rng.standard_normal(years)
        is_wild ^= rng.random(years) < 0.02
    return found


def crashes(rng: np.random.Generator, years: int, days: int) -> Years:
    """A small gain on 99 of 100 days, which one crash takes back: options sold far out of money."""
    is_crash = rng.random((years, days)) < 0.01
    noise = 0.3 * rng.standard_normal((years, days))
    jump = np.where(is_crash, -9.9, 0.1) / math.sqrt(0.99)
    return np.asarray(math.sqrt(1.0 - 0.3**2) * jump + noise)


LAWS: dict[str, Callable[[np.random.Generator, int, int], Years]] = {
    "normal": normal,
    "t(3)": heavy,
    "GARCH(1,1)": clustered,
    "skewness -1": skewed,
    "AR(1) 0.1": correlated(0.1),
    "two regimes": switching,
}
"""Laws under which the intervals must hold; the fourth and the fifth break their assumption."""

BEYOND: dict[str, Callable[[np.random.Generator, int, int], Years]] = {
    "AR(1) 0.3": correlated(0.3),
    "rare crashes": crashes,
}
"""Laws that break it so far that the intervals do not hold."""


# ---- what is measured


@dataclass(frozen=True)
class Measured:
    """Figures of one kind of interval under one law."""

    kind: str
    covered: dict[str, float]  #: share of years whose interval held the mean, by stopping rule
    wins: float  #: share of years in which an interval was above 0
    width_pct: float  #: median half width after the last day, in per cent a year


def draw(name: str, years: int, days: int, seed: int) -> Years:
    """Return years of daily returns under a law."""
    laws = {**LAWS, **BEYOND}
    rng = np.random.default_rng([seed, list(laws).index(name)])
    return laws[name](rng, years, days) * TRACKING_ERROR / math.sqrt(days)


def intervals(kind: str, returns: Years) -> tuple[Years, Years]:
    """Return both ends after each day."""
    if kind == "symmetric":
        found = symmetric_sequence(returns, mixture_variance(TRACKING_ERROR**2))
        return found.low, found.high
    if kind == "asymptotic":
        found = asymptotic_sequence(returns, returns.shape[1])
        return found.low, found.high
    return fixed(returns)


def fixed(returns: Years) -> tuple[Years, Years]:
    """Return the ends of ordinary 95 % intervals, each as if it were the only one."""
    means, errors = _standard(returns)
    half = 1.96 * errors
    half[:, : FIRST_FIXED - 1] = np.inf
    return means - half, means + half


def _standard(returns: Years) -> tuple[Years, Years]:
    """Return the mean so far and its standard error, which is infinite after one day."""
    count = np.arange(1, returns.shape[1] + 1)
    means = np.cumsum(returns, axis=1) / count
    squares = np.maximum(np.cumsum(returns**2, axis=1) - count * means**2, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        errors = np.sqrt(squares / (count - 1) / count)

    errors[:, 0] = np.inf
    return means, errors


def stopped(rule: str, returns: Years, low: Years, high: Years) -> npt.NDArray[np.bool_]:
    """Whether the interval at which each year stops by a rule leaves out the mean, which is 0."""
    is_wrong = (low > 0) | (high < 0)
    if rule == "every day":
        return np.asarray(is_wrong.any(axis=1))

    rows = np.arange(len(returns))
    if rule == "first significant":
        days = np.where(is_wrong.any(axis=1), is_wrong.argmax(axis=1), returns.shape[1] - 1)
        return np.asarray(is_wrong[rows, days])

    means, errors = _standard(returns)
    return np.asarray(is_wrong[rows, (np.abs(means) / errors).argmax(axis=1)])


def measure(kind: str, returns: Years) -> Measured:
    """Return the figures of one kind of interval."""
    low, high = intervals(kind, returns)
    covered = {rule: 1.0 - float(stopped(rule, returns, low, high).mean()) for rule in RULES}
    half = np.median(high[:, -1] - low[:, -1]) / 2.0
    return Measured(
        kind=kind,
        covered=covered,
        wins=float((low > 0).any(axis=1).mean()),
        width_pct=100.0 * returns.shape[1] * float(half),
    )


def lines(names: Iterable[str], years: int, days: int, seed: int) -> Iterator[str]:
    """Yield the rows of a table in Markdown."""
    for name in names:
        returns = draw(name, years, days, seed)
        for kind in KINDS:
            found = measure(kind, returns)
            cells = [f"{100 * found.covered[rule]:.1f}" for rule in RULES]
            cells += [f"{100 * found.wins:.1f}", f"{found.width_pct:.1f}"]
            yield f"| {name} | {kind} | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--years", type=int, default=2000)
    parser.add_argument("--days", type=int, default=250)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    print(f"| law | interval | {' | '.join(RULES)} | wins | half width, % a year |")
    print("|---|---|---|---|---|---|---|")
    for line in lines({**LAWS, **BEYOND}, options.years, options.days, options.seed):
        print(line)


if __name__ == "__main__":
    main()
