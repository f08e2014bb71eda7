"""Manifest of the built-in models: keyless, deterministic, and speaking the protocol of a real one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ktdeval.api import Spec, hookimpl
from ktdeval_models.params import ChaosParams, EqualWeightParams, RandomParams, RankParams

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktdeval.api import Model


def _make(name: str, params: Any = None) -> Model:
    from ktdeval_models.catalogue import make_builtin

    return make_builtin(name, params)


@hookimpl
def ktdeval_models() -> Sequence[Spec]:
    """Models that need no key, no network and no download."""
    return [
        Spec("builtin/hold", _make, "Looks at the market and never trades"),
        Spec("builtin/random", _make, "Buys and sells shown stocks at random, from the run's seed", RandomParams),
        Spec("builtin/equal_weight", _make, "Holds the most liquid names in equal weights", EqualWeightParams),
        Spec("builtin/momentum", _make, "Holds the highest 12-minus-1 month momentum", RankParams),
        Spec("builtin/reversal", _make, "Holds the lowest 20-day return", RankParams),
        Spec("builtin/low_volatility", _make, "Holds the lowest 60-day volatility", RankParams),
        Spec("builtin/chaos", _make, "Misbehaves in every way a model can, on a seeded schedule", ChaosParams),
    ]
