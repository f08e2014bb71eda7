"""Range of the mean daily returns of several random traders, as many as a table has ranked
systems: the best of them shows what chance alone reaches.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain

import numpy as np

from ktdeval.stats import student_quantile
from ktdeval_board.ranking.daily_summaries import EpisodeDays, Vector


def band_half_width(
    episodes: Mapping[str, Sequence[EpisodeDays]], seeds: int, traders: int, level: float
) -> float | None:
    """Return the half width of the range, around the mean of the random baseline, that contains the
    mean daily returns of a number of random traders, all of them, with probability 1 - level. None
    if a window has fewer than two episodes, or if they do not vary.

    `episodes` are those of the random baseline, keyed by window. Each trader has `seeds` episodes
    in each window, as a ranked system has. A trader's mean is normal, with the variance of the
    episodes over seeds; the mean of the baseline is uncertain, too. The ends are Student quantiles,
    with the degrees of freedom of Satterthwaite (1946) over windows.
    """
    shares = _shares_of_mean(episodes)
    variances = []
    freedom = []
    errors = []
    for window, own in episodes.items():
        if len(own) < 2:
            return None

        variance = float(np.var([shares[window] @ each.returns for each in own], ddof=1))
        variances.append(variance)
        freedom.append(variance**2 / (len(own) - 1))
        errors.append(variance * (1 / seeds + 1 / len(own)))

    if not variances or math.fsum(variances) <= 0:
        return None

    degrees = math.fsum(variances) ** 2 / math.fsum(freedom)
    beyond = -math.expm1(math.log1p(-level / 2) / traders)  # chance of one trader on one side
    return -student_quantile(degrees, beyond) * math.sqrt(math.fsum(errors))


def _shares_of_mean(episodes: Mapping[str, Sequence[EpisodeDays]]) -> dict[str, Vector]:
    """Return the share of each day of a window in the mean over all days, as `mean_by_day` weights
    them: windows that share a day share its weight. Each is [days of the window].
    """
    days_of = {window: own[0].days for window, own in episodes.items() if own}
    windows_of = Counter(chain.from_iterable(days.tolist() for days in days_of.values()))
    shares = {}
    for window, days in days_of.items():
        counts = np.array([windows_of[day] for day in days.tolist()], dtype=np.float64)
        shares[window] = 1 / counts / len(windows_of)

    return shares
