"""Encoders of the second stage: letter groups, which need nothing, or a sentence-embedding model from a local folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ktdeval.errors import UsageError
from ktdeval.market import FloatArray
from ktdeval_rationale.similarity import Encoder, NgramEncoder

NOT_INSTALLED = "a sentence-embedding model needs the package model2vec, which is not installed: pip install 'ktdeval[embeddings]'"


class StaticEncoder:
    """A static sentence-embedding model (model2vec) from a folder; nothing is downloaded.

    Raises ModuleNotFoundError: model2vec is not installed; UsageError: the folder holds no such model.
    """

    def __init__(self, folder: Path) -> None:
        from model2vec import StaticModel  # noqa: PLC0415 - an optional package, imported only where it is used

        if not (folder / "config.json").is_file():
            raise UsageError(
                f"--embedding-model {folder}: no model there (config.json is missing); give a folder written by model2vec"
            )
        try:
            self._model = StaticModel.from_pretrained(str(folder))
        except (OSError, ValueError, KeyError, RuntimeError) as error:
            first = (str(error).splitlines() or [type(error).__name__])[0]
            raise UsageError(f"--embedding-model {folder}: can't be loaded: {first[:300]}") from error
        self.name = f"model2vec {folder.name}"

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """[texts, dimensions] vectors."""
        return np.asarray(self._model.encode(list(texts)), dtype=np.float64)


def choose_encoder(model: Path | None) -> Encoder | str:
    """Encoder asked for, or why it can't be had.

    `model`: folder of a model; None for letter groups. Raises UsageError: the folder holds no model that can be loaded.
    """
    if model is None:
        return NgramEncoder()
    try:
        return StaticEncoder(model)
    except ModuleNotFoundError:
        return NOT_INSTALLED
