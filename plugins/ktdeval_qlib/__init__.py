"""Supervised baselines: the eighteen models of KTD-Fin (section 4.1, Appendix H), trained with
pyqlib on the nine style factors.
"""

from __future__ import annotations

from dataclasses import dataclass

from ktdeval.hookspecs import Spec, hookimpl
from ktdeval.keyless import TopParams
from ktdeval.values import later, maker, option

TITLES = {
    "linear": "Linear",
    "lightgbm": "LightGBM",
    "xgboost": "XGBoost",
    "catboost": "CatBoost",
    "doubleensemble": "DoubleEnsemble",
    "mlp": "MLP",
    "lstm": "LSTM",
    "gru": "GRU",
    "alstm": "ALSTM",
    "tcn": "TCN",
    "transformer": "Transformer",
    "localformer": "Localformer",
    "tabnet": "TabNet",
    "sfm": "SFM",
    "adarnn": "ADARNN",
    "add": "ADD",
    "krnn": "KRNN",
    "sandwich": "Sandwich",
}
FOLDER = "ktdeval-models"  #: default folder for trained models


@dataclass(frozen=True)
class TrainedParams(TopParams):
    """Parameters of `qlib/…`. The last two are filled in from the training and recorded."""

    trained: str = option(FOLDER, help="folder written by `ktdeval train qlib`")
    training_seed: int = option(0, help="seed of the training to use", minimum=0)
    sha256: str | None = option(
        None, help="SHA-256 that the training's description must have; recorded with each run"
    )
    days: str | None = option(
        None, help="days of training and validation, FIRST:LAST; recorded with each run"
    )


@hookimpl
def ktdeval_models() -> list[Spec]:
    """Return the models that `ktdeval train qlib` trains."""
    make = "ktdeval_qlib.trained_baseline:TrainedModel"
    return [
        Spec(
            f"qlib/{name}",
            maker(make),
            f"Holds the assets ranked best by a trained {title}, see ktdeval train qlib",
            TrainedParams,
            remote=False,
        )
        for name, title in TITLES.items()
    ]


@hookimpl
def ktdeval_commands() -> list[Spec]:
    """Return the command that trains the models."""
    return [
        Spec(
            "train qlib",
            later("ktdeval_qlib.command:qlib"),
            "Train supervised baselines, for the models qlib/…",
            groups=("train",),
        )
    ]
