"""Settings of intervals over days."""

from __future__ import annotations

from dataclasses import dataclass

from ktdeval.stats.data_limits import MAX_DAY_SHARE


@dataclass(frozen=True, slots=True)
class Resampling:
    """Settings for resampling. Equal settings and data give equal intervals."""

    #: number of resamples; with 4,999, the 2.5 % and 97.5 % points are order statistics
    draws: int = 4999
    #: seed of the draws; None: derived from the bytes of the series, so that each series has
    #: exactly one interval
    seed: int | None = None
    level: float = 0.95  #: nominal coverage
    #: share of the squares of returns above which a single day leaves no interval of a total return
    #: or a ratio; 1: no day does, as on cards of earlier versions
    max_day_share: float = MAX_DAY_SHARE
