"""Built-in models by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ktdeval.errors import UsageError
from ktdeval.fields import near_matches
from ktdeval.harness import Model
from ktdeval_models.base import Hold
from ktdeval_models.chance import RandomModel
from ktdeval_models.chaos import ChaosModel
from ktdeval_models.params import ChaosParams, EqualWeightParams, LinearFactorParams, RandomParams, RankParams
from ktdeval_models.ranking import EqualWeight, LinearFactor, RankModel

_MAKERS: dict[str, Callable[[Any], Model]] = {
    "hold": lambda params: Hold(),  # noqa: ARG005 - it has no parameters
    "random": lambda params: RandomModel(params or RandomParams()),
    "equal_weight": lambda params: EqualWeight(params or EqualWeightParams()),
    "momentum": lambda params: RankModel("MOM_12_1", False, params or RankParams()),
    "reversal": lambda params: RankModel("return_20d_pct", True, params or RankParams()),
    "low_volatility": lambda params: RankModel("RV_60", True, params or RankParams()),
    "linear_factor": lambda params: LinearFactor(params or LinearFactorParams(coefficients="")),
    "chaos": lambda params: ChaosModel(params or ChaosParams()),
}


def make_builtin(name: str, params: Any = None) -> Model:
    """A built-in model. `params`: its parameters; None takes the defaults. Raises UsageError: no such model."""
    if name not in _MAKERS:
        raise UsageError(f"no built-in model {name!r}{near_matches(name, _MAKERS)}")
    return _MAKERS[name](params)
