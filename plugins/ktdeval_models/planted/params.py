"""Parameters of `planted/memory`, and the folder of its trained models, in a separate module so
that listing models imports nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ktdeval.values import option

FOLDER = "ktdeval-planted"  #: folder for trained models
EXPOSURES = (0, 1, 4, 16, 64)  #: numbers of exposures after which training writes a model


def model_folder(trained: Path, exposures: int, seed: int) -> Path:
    """Return the folder of one model, inside the folder of trained models."""
    return trained / f"exposures-{exposures}" / f"seed-{seed}"


@dataclass(frozen=True)
class PlantedParams:
    """Parameters of `planted/memory`. The last is read from the file and recorded."""

    positions: int = option(
        10,
        help="number of names held (all in a smaller market); never more than the task allows",
        minimum=1,
        maximum=1000,
    )
    keep_rank: int = option(
        10, help="a holding is kept while it ranks this high or higher", minimum=1, maximum=1000
    )
    invested: float = option(
        0.98,
        help="share of NAV to invest; the rest covers costs and gaps at the open",
        minimum=0.01,
        maximum=1.0,
    )
    trim_above: float = option(
        1.5,
        help="a holding is cut back when it exceeds this multiple of its target weight",
        minimum=1.01,
    )
    trained: str = option(FOLDER, help="folder written by `ktdeval train memory`")
    exposures: int = option(64, help="number of times that the model has read each fact", minimum=0)
    training_seed: int = option(0, help="seed of the training to use", minimum=0)
    sha256: str | None = option(
        None, help="SHA-256 that the model's description must have; recorded with each run"
    )
