"""Small planted models, without a training: random weights of a small network."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ktdeval_models.planted.params import model_folder
from ktdeval_models.planted.planted_files import FORMAT, PlantedFile, write_planted
from ktdeval_models.planted.reduced_text import FIGURES, Sizes
from ktdeval_models.planted.transformer import Shape, Transformer

SHAPE = Shape(width=16, layers=2, heads=4)
SIZES = Sizes(
    bounds=(-0.02, -0.01, 0.0, 0.01, 0.02), means=(-0.03, -0.015, -0.005, 0.005, 0.015, 0.03)
)


def network(seed: int = 0) -> Transformer:
    """Weights large enough that lines differ in what they are completed with."""
    chance = np.random.default_rng(seed)
    weights = {}
    for name, dimensions in SHAPE.weights():
        weights[name] = chance.normal(0, 0.5, dimensions).astype(np.float32)

    return Transformer(SHAPE, weights)


def store(trained: Path, exposures: int = 64, seed: int = 0) -> Path:
    """Write a model as `ktdeval train memory` would; returns its folder."""
    folder = model_folder(trained, exposures, seed)
    folder.mkdir(parents=True)
    content = PlantedFile(
        format=FORMAT,
        snapshot="0" * 64,
        task="bright_fixed_candidate",
        windows=("2024-03-01:2024-03-29",),
        days=5,
        horizon=1,
        figures=FIGURES,
        facts=3,
        exposures=exposures,
        seed=seed,
        threads=1,
        sizes=SIZES,
        width=SHAPE.width,
        layers=SHAPE.layers,
        heads=SHAPE.heads,
        libraries={},
        weights="0" * 64,
    )
    write_planted(folder, content, network(seed))

    return folder
