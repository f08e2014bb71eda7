"""Tie groups: who can't be told from the best, by the model confidence set of Hansen, Lunde and Nason (2011), again and again.

Group 1 is the model confidence set of all who take part: it holds the one with the highest mean daily return with probability
1 - level. Group 2 is the set of those that are left, and so on. Groups go by mean daily returns and ranks by the median over
episodes, so a group need not be a run of ranks: it says that daily returns do not tell its members from the best of them.

Range statistic and elimination rule are those of Hansen, Lunde and Nason. The distribution of the statistic is that of a
studentised circular block bootstrap with blocks of n**(1/3) / 2 days, at least 2: each resample's differences are divided by their
own standard errors (Götze and Künsch 1996), as `ktdeval.api.sharpe_difference` does for two agents. `arch.bootstrap.MCS`, and with
it `model_confidence_set`, divides all resamples by the standard error of the sample, for which windows of two months are too short:
of 20 agents that are equally good it splits some off in half of all windows of 43 days, where the level says 5 %; this does in 3 %.
On long series the two agree.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ktdeval_board.ranking.series_facts import Cell, Daily, Vector

MOST_TESTED = 40
"""Entrants that take part, the best by rank: time and memory grow with the square of their number."""
MINIMUM_DAYS = 30
"""Fewer days than this can't be resampled in blocks."""
DRAWS = 1000
"""Bootstrap samples: a p-value is known to 0.007 near 0.05."""
_SEED = 0
_NO_VARIANCE = 1e-12


@dataclass(frozen=True)
class Ties:
    """Tie groups of one table.

    Attributes:
        group: [k] number of the agent's group, 1 being that of the best; None where there are no groups.
        p: [k] p-value of the agent in the first model confidence set: it belongs to every set of a level below it.
        days: observations.
        reason: why there are no groups.
    """

    group: tuple[int, ...] | None
    p: tuple[float, ...] | None
    days: int
    reason: str | None = None


def tie_groups(returns: Vector, level: float, draws: int = DRAWS) -> Ties:
    """Tie groups of agents by their daily returns.

    Args:
        returns: [days, agents] over the same days.
        level: of each model confidence set.
        draws: bootstrap samples.
    """
    days, agents = returns.shape
    reason = _problem(returns)
    if reason is not None:
        return Ties(None, None, days, reason)
    # Agents with the same returns are one agent under several names: no test can divide by their difference.
    distinct, twin = np.unique(returns, axis=1, return_inverse=True)
    place = twin.reshape(-1).tolist()
    count = distinct.shape[1]
    if count == 1:
        return Ties((1,) * agents, (1.0,) * agents, days)
    gaps = (distinct[:, :, None] - distinct[:, None, :]).std(axis=0)
    if float((gaps + np.eye(count)).min()) < _NO_VARIANCE:
        return Ties(None, None, days, "two agents differ by the same amount every day")
    contest = _Contest(distinct, draws)
    p = contest.p_values(range(count))
    groups: dict[int, int] = {}
    left, of_left, number = list(range(count)), p, 1
    while left:
        groups |= {agent: number for agent in left if of_left[agent] > level}
        left = [agent for agent in left if of_left[agent] <= level]
        of_left = contest.p_values(left)
        number += 1
    return Ties(tuple(groups[agent] for agent in place), tuple(p[agent] for agent in place), days)


def _problem(returns: Vector) -> str | None:
    days, agents = returns.shape
    if agents < 2:
        return "one agent is no comparison" if agents else "no ranked entrant has daily returns"
    if days < MINIMUM_DAYS:
        return f"fewer than {MINIMUM_DAYS} days"
    return None if np.isfinite(returns).all() else "a return is missing"


class _Contest:
    """Studentised differences of mean returns: [agents, agents] as observed, [pairs, draws] resampled, without sign."""

    def __init__(self, returns: Vector, draws: int) -> None:
        days, agents = returns.shape
        block = max(2, round(math.cbrt(days) / 2))
        means = returns.mean(axis=0)
        upper, lower = np.triu_indices(agents, 1)
        self.pair = np.zeros((agents, agents), dtype=np.int64)
        self.pair[upper, lower] = self.pair[lower, upper] = np.arange(len(upper))
        centred = _block_means(returns - means, block)
        differences = centred[:, upper] - centred[:, lower]
        drawn, blocks = _resamples(days, block, draws)
        # A mean of n / b blocks; they vary about the sample's mean by (n - b) / n less than about the true one.
        errors = np.sqrt((differences**2).mean(axis=0) * block / (days - block))
        self.observed = np.zeros((agents, agents))
        self.observed[upper, lower] = (means[lower] - means[upper]) / errors  # by how much the second is better
        self.observed[lower, upper] = -self.observed[upper, lower]
        shift = drawn @ differences / blocks
        own = np.maximum(drawn @ differences**2 / blocks - shift**2, 0.0) / (blocks - 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            # Without any variance a resample says nothing against a difference of any size.
            self.resampled = np.where(shift == 0, 0.0, np.abs(shift) / np.sqrt(own)).T

    def p_values(self, agents: Sequence[int]) -> dict[int, float]:
        """Agent -> p-value: it belongs to the model confidence set of the agents at every level below it.

        The order of elimination follows from the observed means alone, so the largest resampled differences of ever larger sets are
        running maxima, and no set is looked at twice.
        """
        observed = self.observed[np.ix_(agents, agents)].copy()
        out: list[int] = []
        largest: list[float] = []
        for _ in range(len(agents) - 1):
            largest.append(float(observed.max()))
            out.append(int(observed.argmax()) // len(agents))
            observed[out[-1], :] = observed[:, out[-1]] = -np.inf
        stay = [agents[place] for place in range(len(agents)) if place not in out]
        reach = np.zeros(self.resampled.shape[1])
        p = dict.fromkeys(stay, 1.0)
        raw: list[float] = []
        for place, statistic in zip(reversed(out), reversed(largest), strict=True):
            reach = np.maximum(reach, self.resampled[self.pair[agents[place], stay]].max(axis=0))
            stay.append(agents[place])
            raw.append(float((statistic < reach).mean()))
        # A set is reached only at a level at which every larger one was rejected.
        return p | dict(zip((agents[place] for place in out), np.maximum.accumulate(raw[::-1]).tolist(), strict=True))


def _block_means(values: Vector, block: int) -> Vector:
    """[days, agents] mean of the block that begins on each day; the last days are followed by the first."""
    around = np.concatenate([np.zeros((1, values.shape[1])), np.cumsum(np.concatenate([values, values[: block - 1]]), axis=0)])
    means: Vector = (around[block:] - around[:-block]) / block
    return means


@functools.lru_cache(maxsize=16)
def _resamples(days: int, block: int, draws: int) -> tuple[Vector, int]:
    """[draws, days] how often a block that begins on each day is drawn, and how many blocks a resample has."""
    blocks = round(days / block)
    starts = np.random.default_rng(_SEED).integers(0, days, (draws, blocks))
    counts = np.zeros((draws, days))
    np.add.at(counts, (np.arange(draws)[:, None], starts), 1.0)
    counts.setflags(write=False)  # kept for every table of as many days
    return counts, blocks


def mean_by_day(episodes: Sequence[Sequence[Daily]], attribute: str) -> npt.NDArray[np.float64]:
    """[days, agents] mean over seeds, and over windows that share a day: a day counts once however many windows hold it.

    Args:
        episodes: of each agent, the same cells on the same days in the same order (`same_days`).
        attribute: `returns` or `selection`.
    """
    if not episodes or not episodes[0]:
        return np.empty((0, len(episodes)))
    days, place = np.unique(np.concatenate([each.days for each in episodes[0]]), return_inverse=True)
    place = place.reshape(-1)
    counts = np.bincount(place, minlength=len(days))
    columns = [np.concatenate([getattr(each, attribute) for each in of_agent]) for of_agent in episodes]
    table: npt.NDArray[np.float64] = np.array([np.bincount(place, column, len(days)) / counts for column in columns]).T
    return table


def same_days(one: Sequence[Daily], other: Sequence[Daily]) -> bool:
    """Whether two agents' episodes cover the same days."""
    return len(one) == len(other) and all(np.array_equal(left.days, right.days) for left, right in zip(one, other, strict=True))


def episodes_in(daily: Mapping[Cell, Daily], cells: Sequence[Cell]) -> list[Daily] | None:
    """The days of the given cells in order; None where one is missing."""
    return [daily[cell] for cell in cells] if all(cell in daily for cell in cells) else None
