"""Parameters of placebo markets, apart from their maker so that listing providers loads nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ktdeval.api import option

PLACEBO_VERSION = 1
"""Part of the snapshot's source line: a change of what the same parameters give changes it."""

Kind = Literal["sign_flip", "block_bootstrap", "shuffle"]

DEFAULT_BLOCK_DAYS: dict[Kind, int | None] = {"sign_flip": 1, "block_bootstrap": 20, "shuffle": None}
"""`block_days` where none is given; None where the kind has no blocks."""


@dataclass(frozen=True)
class PlaceboParams:
    """What a placebo market depends on, beside the market that it is like."""

    of: str = option("synthetic", help="the market to be like: synthetic (the embedded one), or the folder of a stored snapshot")
    kind: Kind = option(
        "sign_flip",
        help="what is done to the part of returns that attribution does not explain: sign_flip (a random sign for each asset and"
        " day), block_bootstrap (whole days drawn in blocks, a random sign for each), shuffle (among the assets of a board within"
        " a day, a random sign for each day)",
    )
    seed: int = option(0, help="seed of all draws; each seed is another placebo of the same market", minimum=0)
    block_days: int | None = option(
        None,
        help="trading days: of block_bootstrap the mean length of a block (20 unless given), of sign_flip how many share a sign"
        " (1 unless given; with more, what links neighbouring days stays); shuffle has none",
        minimum=1,
    )
