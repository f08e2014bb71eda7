"""Error, power and savings of planned looks: the tables of docs/uncertainty.md.

    python benchmarks/sequential_looks.py [--trials 10000] [--seed 0] [--designs 10,20]

Each trial compares two systems over windows, and ends at the first look that settles their order. Laws
of the difference in a window:

* normal; Student's t with three degrees of freedom;
* skewed: two independent lognormal returns, one less the other;
* placebo: returns of two random players of ten names over 20 days of a placebo of the embedded market;
* planted: the same on that placebo with a drift in a quarter of its names; under the null both players
  hold five of these, with an effect the first one alone.

Under the null the two systems are exchangeable, so that whatever is settled is an error. The effect is
one standard deviation of the difference of a window. A last law is no null of the test, and shows what
it does not claim: skewed differences with mean 0, which are not symmetric.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from ktdeval.market import MarketSnapshot
from ktdeval.runner import SequentialRule, answer
from ktdeval.stats import alpha_spent, normal_boundaries, stopping_probabilities
from ktdeval.stats.distributions import beta_quantile
from ktdeval_data.placebo import PlaceboRecipe, open_source, placebo_of

Trials = npt.NDArray[np.float64]
"""[trials, windows] of differences."""

DESIGNS = {10: (6, 8, 10), 20: (8, 12, 16, 20)}
RULES = ("obrien-fleming", "pocock", "anytime", "one look")
ALPHA = 0.05
FIRST_ROW = 260  #: after which all names have a history
WINDOW_DAYS = 20
PLAYERS = 400
NAMES = 10


# ---- laws of the difference in a window, with standard deviation 1


@dataclass(frozen=True)
class Law:
    """Differences of two systems by window, under the null and with an effect."""

    name: str
    null: Callable[[np.random.Generator, int, int], Trials]
    effect: Callable[[np.random.Generator, int, int], Trials]


def shifted(draw: Callable[[np.random.Generator, int, int], Trials], name: str) -> Law:
    """A law whose effect is a shift by one standard deviation."""

    def effect(rng: np.random.Generator, trials: int, windows: int) -> Trials:
        return draw(rng, trials, windows) + 1.0

    return Law(name, draw, effect)


def normal(rng: np.random.Generator, trials: int, windows: int) -> Trials:
    """Normal differences."""
    return rng.standard_normal((trials, windows))


def heavy(rng: np.random.Generator, trials: int, windows: int) -> Trials:
    """Student's t with three degrees of freedom."""
    return rng.standard_t(3, (trials, windows)) / math.sqrt(3.0)


def skewed(rng: np.random.Generator, trials: int, windows: int) -> Trials:
    """Two lognormal returns, one less the other."""
    first, second = rng.lognormal(0.0, 1.0, (2, trials, windows))
    variance = 2.0 * (math.e - 1.0) * math.e
    return (first - second) / math.sqrt(variance)


def asymmetric(rng: np.random.Generator, trials: int, windows: int) -> Trials:
    """One lognormal return less its mean: mean 0, and not symmetric."""
    values = rng.lognormal(0.0, 1.0, (trials, windows)) - math.exp(0.5)
    return values / math.sqrt((math.e - 1.0) * math.e)


# ---- players of a placebo market


@cache
def placebo_market() -> MarketSnapshot:
    """A placebo of the embedded market."""
    return placebo_of(open_source("synthetic"), PlaceboRecipe("sign_flip", 1, 1))


def window_returns(market: MarketSnapshot) -> npt.NDArray[np.float64]:
    """[windows, names] return of each name over each window of 20 days, one after another."""
    close = market.close * (1.0 if market.factor is None else market.factor)
    ends = np.arange(FIRST_ROW, len(market.days), WINDOW_DAYS)
    returns = close[ends[1:]] / close[ends[:-1]] - 1.0
    known = np.isfinite(returns).all(axis=0)
    return returns[:, known]


def player_returns(
    returns: npt.NDArray[np.float64], rng: np.random.Generator, leaning: Sequence[int] = ()
) -> npt.NDArray[np.float64]:
    """[windows, players] return of random players, half of whose names are of `leaning` if given."""
    windows, names = returns.shape
    made = np.empty((windows, PLAYERS))
    every = np.arange(names)
    for window in range(windows):
        for player in range(PLAYERS):
            held = rng.choice(every, NAMES, replace=False)
            if len(leaning):
                held[: NAMES // 2] = rng.choice(leaning, NAMES // 2, replace=False)

            made[window, player] = returns[window, held].mean()

    return made


def drawn(
    first: npt.NDArray[np.float64], second: npt.NDArray[np.float64], scale: float
) -> Callable[[np.random.Generator, int, int], Trials]:
    """Draw trials of successive windows, each with a player of either kind."""

    def draw(rng: np.random.Generator, trials: int, windows: int) -> Trials:
        begins = rng.integers(0, len(first) - windows + 1, trials)
        rows = begins[:, None] + np.arange(windows)
        one = first[rows, rng.integers(0, PLAYERS, rows.shape)]
        other = second[rows, rng.integers(0, PLAYERS, rows.shape)]
        return (one - other) / scale

    return draw


def market_laws(seed: int) -> Iterator[Law]:
    """Yield the laws of the placebo market and of the planted one."""
    rng = np.random.default_rng([seed, 99])
    returns = window_returns(placebo_market())
    plain = player_returns(returns, rng)
    scale = float(np.std(plain - np.roll(plain, 1, axis=1)))
    yield shifted(drawn(plain, plain, scale), "placebo")

    leaning = np.arange(0, returns.shape[1], 4)
    planted = returns.copy()
    # Of a leaning player's names, half are planted and a quarter of the rest; of another's a quarter.
    planted[:, leaning] += scale / (0.5 + 0.125 - 0.25)
    lean = player_returns(planted, rng, leaning.tolist())
    other = player_returns(planted, rng)
    spread = float(np.std(lean - np.roll(lean, 1, axis=1)))
    yield Law("planted", drawn(lean, lean, spread), drawn(lean, other, spread))


# ---- trials


@dataclass(frozen=True)
class Outcome:
    """How trials of one law, design and rule ended."""

    errors: int  #: trials settled under the null
    found: int  #: trials settled in the right direction with an effect
    saved_null: float  #: share of windows not run
    saved_effect: float
    trials: int

    @property
    def error_bounds(self) -> tuple[float, float]:
        """Exact 95 % interval of the error rate (Clopper and Pearson 1934)."""
        low = 0.0
        if self.errors:
            low = beta_quantile(self.errors, self.trials - self.errors + 1, 0.025)

        high = 1.0
        if self.errors < self.trials:
            high = beta_quantile(self.errors + 1, self.trials - self.errors, 0.975)

        return low, high


def rule_of(name: str, windows: int) -> SequentialRule:
    """Return the rule of a design by its name."""
    looks = DESIGNS[windows]
    spending = name
    if name == "one look":
        looks = (windows,)
        spending = "pocock"

    return SequentialRule(
        metric="total_return", looks=looks, alpha=ALPHA, spending=spending, effect=1.0
    )


def outcome(rule: SequentialRule, null: Trials, effect: Trials) -> Outcome:
    """Return how trials end under a rule."""
    planned = rule.looks[-1]
    errors = 0
    found = 0
    run_null = 0
    run_effect = 0
    for values in null:
        ended = answer(rule, values)
        errors += ended.settled_at is not None
        run_null += ended.windows

    for values in effect:
        ended = answer(rule, values)
        found += ended.sign > 0
        run_effect += ended.windows

    count = len(null)
    return Outcome(
        errors=errors,
        found=found,
        saved_null=1.0 - run_null / (planned * count),
        saved_effect=1.0 - run_effect / (planned * count),
        trials=count,
    )


# ---- tables


def boundary_lines() -> Iterator[str]:
    """Yield the boundaries of normal statistics, five equal looks, and what they spend."""
    yield "| look | share | O'Brien-Fleming: z | error used | Pocock: z | error used |"
    yield "| ---: | ---: | ---: | ---: | ---: | ---: |"
    fractions = [place / 5 for place in range(1, 6)]
    columns = []
    for spending in ("obrien-fleming", "pocock"):
        columns.append(normal_boundaries(spending, ALPHA, fractions).z)
        columns.append(alpha_spent(spending, ALPHA, fractions))

    for place, fraction in enumerate(fractions):
        high, high_spent, level, level_spent = (column[place] for column in columns)
        yield (
            f"| {place + 1} | {fraction:.1f} | {high:.4f} | {high_spent:.6f} | {level:.4f} |"
            f" {level_spent:.6f} |"
        )


def normal_theory(spending: str, windows: int) -> str:
    """Return power and savings of the normal test with the same looks and effect, in words."""
    looks = DESIGNS[windows]
    boundaries = normal_boundaries(spending, ALPHA, [look / windows for look in looks])
    stops = stopping_probabilities(boundaries, math.sqrt(windows))
    stopped = stops.sum(axis=1)
    rest = 1.0 - float(stopped.sum())
    run = float(stopped @ np.asarray(looks)) + rest * windows
    return f"power {stops[:, 1].sum():.1%}, saved {1.0 - run / windows:.1%}"


def table_lines(laws: Sequence[Law], windows: int, trials: int, seed: int) -> Iterator[str]:
    """Yield the table of a design."""
    yield (
        "| law | rule | error | 95 % interval | power | windows saved, no effect | with an effect |"
    )
    yield "| --- | --- | ---: | ---: | ---: | ---: | ---: |"
    for number, law in enumerate(laws):
        rng = np.random.default_rng([seed, windows, number])
        null = law.null(rng, trials, windows)
        effect = law.effect(rng, trials, windows)
        for name in RULES:
            ended = outcome(rule_of(name, windows), null, effect)
            low, high = ended.error_bounds
            yield (
                f"| {law.name} | {name} | {ended.errors / trials:.2%} | {low:.2%} … {high:.2%} |"
                f" {ended.found / trials:.1%} | {ended.saved_null:.1%} | {ended.saved_effect:.1%} |"
            )


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--designs", default="10,20")
    options = parser.parse_args(arguments)

    print("boundaries of a normal statistic, alpha 5 %, two-sided")
    for line in boundary_lines():
        print(line)

    laws = [
        shifted(normal, "normal"),
        shifted(heavy, "Student t, 3"),
        shifted(skewed, "skewed, exchangeable"),
        *market_laws(options.seed),
        shifted(asymmetric, "skewed, mean 0 (no null)"),
    ]
    for text in options.designs.split(","):
        windows = int(text)
        print(f"\n{windows} windows, looks at {DESIGNS[windows]}, {options.trials:,} trials a law")
        for spending in ("obrien-fleming", "pocock"):
            print(f"normal theory, {spending}: {normal_theory(spending, windows)}")

        for line in table_lines(laws, windows, options.trials, options.seed):
            print(line, flush=True)


if __name__ == "__main__":
    main()
