"""Embedders by the arguments of the agent. Sentence-transformers models are local files, named by their hash for verifications."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ktdeval.errors import UsageError
from ktdeval.jsonio import content_hash, file_sha256
from ktdeval_investorbench.embedding import CACHED, Embedder, HashingEmbedder, Vectors, unit
from ktdeval_investorbench.params import FinmemParams
from ktdeval_investorbench.remote_embedding import RemoteEmbedding

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*(/[A-Za-z0-9][A-Za-z0-9_.-]*)?")
_DIGITS = 32
_READ = {".json", ".txt", ".model", ".safetensors"}  # what a model is loaded from
_PICKLED = {".bin", ".pt", ".pth", ".pkl", ".ckpt"}
_ENCODING = threading.Lock()  # episodes run in threads, and tokenizers take one text at a time


def make_embedder(params: FinmemParams) -> Embedder | RemoteEmbedding:
    """Return the embedder of the agent's arguments, or the server to make one with in each step. Raises UsageError;
    ConfigError: an address is not usable.
    """
    kind, _, name = params.embedding.partition(":")
    is_remote = bool(params.embedding_url or params.embedding_floats)
    if kind == "openai" and name and not params.weights:
        return RemoteEmbedding(params)
    if kind == "sentence" and name and not is_remote:
        return SentenceEmbedder(name, params.weights)
    if params.embedding != "hashing" or params.weights or is_remote:
        told = "hashing, sentence:NAME with weights=HASH, or openai:NAME with embedding_url, embedding_floats"
        raise UsageError(f"embedding={params.embedding[:80]!r}: give {told}")
    return HashingEmbedder()


class SentenceEmbedder:
    """A sentence-transformers model on the CPU. Each text is encoded alone, so that its vector does not depend on the others.

    `name`: a folder of `$KTDEVAL_EMBEDDINGS`; nothing is downloaded. `weights`: hash of its files, which the error for a missing or
    other one names. Raises UsageError: package or model are missing, or not these.
    """

    def __init__(self, name: str, weights: str) -> None:
        self._model = _loaded(name, weights)
        self._vector = lru_cache(CACHED)(self._encoded)

    def __call__(self, texts: Sequence[str]) -> Vectors:
        """Return [texts, floats] unit vectors."""
        return np.stack([self._vector(text) for text in texts]) if texts else np.zeros((0, 1), np.float32)

    def _encoded(self, text: str) -> Vectors:
        with _ENCODING:
            vector = np.asarray(self._model.encode([text], show_progress_bar=False), np.float64).reshape(-1)
        if not np.isfinite(vector).all():
            raise UsageError("embedding: the sentence-transformers model gives a vector that is not finite")
        return unit(vector)


@lru_cache(2)  # agents are made for each episode
def _loaded(name: str, weights: str) -> Any:
    if not _NAME.fullmatch(name):
        raise UsageError(f"embedding: {name[:80]!r} is no name of a model, such as sentence-transformers/all-MiniLM-L6-v2")
    try:
        from sentence_transformers import SentenceTransformer  # noqa: PLC0415 - an optional package
    except ImportError:
        told = "the package sentence-transformers is not installed: pip install 'ktdeval[sentence-transformers]'"
        raise UsageError(f"embedding=sentence:{name}: {told}") from None
    folder = Path(os.environ.get("KTDEVAL_EMBEDDINGS", ".")) / name
    if not (folder / "modules.json").is_file():
        told = "the model is not here, and without it what the agent recalled can't be had again"
        raise UsageError(f"embedding=sentence:{name}: {told}; put its files into the folder {name} of $KTDEVAL_EMBEDDINGS")
    found = weights_hash(folder)
    if weights != found:
        asked = f"the run asks for weights={weights[:_DIGITS]}" if weights else "the model must be named by its weights"
        raise UsageError(f"embedding=sentence:{name}: {asked}, those in {folder} are weights={found}")
    try:
        options = {"use_safetensors": True}
        return SentenceTransformer(str(folder), device="cpu", trust_remote_code=False, local_files_only=True, model_kwargs=options)
    except (OSError, ValueError, KeyError, RuntimeError, ImportError, TypeError) as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise UsageError(f"embedding=sentence:{name}: {folder} can't be loaded: {first[:300]}") from error


def weights_hash(folder: Path) -> str:
    """Return the hash of a model's files, 32 hex digits. Raises UsageError: some weights are pickled: reading them runs code."""
    files = sorted(path for path in folder.rglob("*") if not any(part.startswith(".") for part in path.relative_to(folder).parts))
    for path in files:
        if path.suffix in _PICKLED and path.parent.name not in ("onnx", "openvino") and not any(path.parent.glob("*.safetensors")):
            raise UsageError(f"embedding: {path}: pickled weights are not read; the folder needs them as .safetensors")
    read = [path for path in files if path.suffix in _READ and path.is_file()]
    return content_hash({path.relative_to(folder).as_posix(): file_sha256(path) for path in read})[:_DIGITS]
