"""Parameters of the synthetic market, apart from its generator so that listing providers loads nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass

from ktdeval.api import option

GENERATOR_VERSION = 1
"""Part of the snapshot's source line: a change of the generator's output changes it."""


@dataclass(frozen=True)
class SyntheticParams:
    """What a synthetic market depends on."""

    seed: int = option(7, help="seed of the generator; each seed is another market with the same regimes", minimum=0)
    first: str = option("2022-06-01", help="first day (ISO date); styles need 252 trading days before the first window")
    last: str = option("2026-05-15", help="last day (ISO date)")
