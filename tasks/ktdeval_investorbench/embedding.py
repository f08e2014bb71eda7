"""Embeddings of texts: a protocol, a local default without download and equal on every machine, and local models of
sentence-transformers, which are named by the hash of their files for verification.
"""

from __future__ import annotations

import itertools
import os
import re
import threading
import zlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ktdeval.errors import UsageError
from ktdeval.jsonio import content_hash, file_sha256

Vectors = NDArray[np.float32]

_WORD = re.compile(r"\w+")
_SIZE = 256
CACHED = 1 << 15  #: vectors kept by text
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*(/[A-Za-z0-9][A-Za-z0-9_.-]*)?")
_DIGITS = 32
_READ = {".json", ".txt", ".model", ".safetensors"}  # files of a model
_PICKLED = {".bin", ".pt", ".pth", ".pkl", ".ckpt"}
_ENCODING = threading.Lock()  # episodes run in threads, and tokenizers take one text at a time


class Embedder(Protocol):
    """Encodes texts as vectors."""

    def __call__(self, texts: Sequence[str]) -> Vectors:
        """Return [texts, floats] unit vectors (float32); that of a text without words may be all 0."""


class _CachingEmbedder:
    """Embeds each text separately, with a cache of vectors by text."""

    def __init__(self, vector_of: Callable[[str], Vectors]) -> None:
        self._vector = lru_cache(CACHED)(vector_of)

    def __call__(self, texts: Sequence[str]) -> Vectors:
        """Return [texts, floats] unit vectors."""
        return np.stack([self._vector(text) for text in texts]) if texts else np.zeros((0, 1), np.float32)


class HashingEmbedder(_CachingEmbedder):
    """Signed hashing of words and pairs of words to 256 floats of unit length."""

    def __init__(self) -> None:
        super().__init__(_hashed)


def _hashed(text: str) -> Vectors:
    words = _WORD.findall(text.lower())
    grams = [*words, *(" ".join(pair) for pair in itertools.pairwise(words))]
    hashes = np.array([zlib.crc32(gram.encode("utf-8", "replace")) for gram in grams], np.uint32)
    signs = np.where(hashes >> np.uint32(31), np.float32(1), np.float32(-1))
    sums = np.bincount(hashes % _SIZE, signs, _SIZE)  # whole numbers: the same in any order
    return unit(np.asarray(sums, np.float64))


def unit(vector: NDArray[np.float64]) -> Vectors:
    """Return a vector at unit length, float32; 0 stays 0."""
    length = float(np.sqrt(np.sum(vector**2)))
    return (vector / length if length else vector).astype(np.float32)


class SentenceEmbedder(_CachingEmbedder):
    """A sentence-transformers model on the CPU. Each text is encoded alone, so that its vector does not depend on the others.

    `name`: a folder of `$KTDEVAL_EMBEDDINGS`; nothing is downloaded. `weights`: hash of its files; the error for a missing or wrong
    one shows it. Raises UsageError: the package or the model is missing, or the hash differs.
    """

    def __init__(self, name: str, weights: str) -> None:
        self._model = _loaded(name, weights)
        super().__init__(self._encoded)

    def _encoded(self, text: str) -> Vectors:
        with _ENCODING:
            vector = np.asarray(self._model.encode([text], show_progress_bar=False), np.float64).reshape(-1)
        if not np.isfinite(vector).all():
            raise UsageError("embedding: the sentence-transformers model gives a vector that is not finite")
        return unit(vector)


@lru_cache(2)  # agents are made for each episode
def _loaded(name: str, weights: str) -> Any:
    if not _NAME.fullmatch(name):
        raise UsageError(f"embedding: {name[:80]!r} is not a model's name, such as sentence-transformers/all-MiniLM-L6-v2")
    try:
        from sentence_transformers import SentenceTransformer  # noqa: PLC0415 - an optional package
    except ImportError:
        problem = "the package sentence-transformers is not installed: pip install 'ktdeval[sentence-transformers]'"
        raise UsageError(f"embedding=sentence:{name}: {problem}") from None
    folder = Path(os.environ.get("KTDEVAL_EMBEDDINGS", ".")) / name
    if not (folder / "modules.json").is_file():
        problem = "the model is not here, and without it the agent's recall can't be repeated"
        raise UsageError(f"embedding=sentence:{name}: {problem}; put its files into the folder {name} of $KTDEVAL_EMBEDDINGS")
    actual = weights_hash(folder)
    if weights != actual:
        requested = f"the run asks for weights={weights[:_DIGITS]}" if weights else "the model must be named by its weights"
        raise UsageError(f"embedding=sentence:{name}: {requested}, those in {folder} are weights={actual}")
    try:
        options = {"use_safetensors": True}
        return SentenceTransformer(str(folder), device="cpu", trust_remote_code=False, local_files_only=True, model_kwargs=options)
    except (OSError, ValueError, KeyError, RuntimeError, ImportError, TypeError) as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise UsageError(f"embedding=sentence:{name}: {folder} can't be loaded: {first[:300]}") from error


def weights_hash(folder: Path) -> str:
    """Return the hash of a model's files, 32 hex digits. Raises UsageError: some weights are pickled; reading them runs code."""
    files = sorted(path for path in folder.rglob("*") if not any(part.startswith(".") for part in path.relative_to(folder).parts))
    for path in files:
        if path.suffix in _PICKLED and path.parent.name not in ("onnx", "openvino") and not any(path.parent.glob("*.safetensors")):
            raise UsageError(f"embedding: {path}: pickled weights are not read; the folder needs them as .safetensors")
    read = [path for path in files if path.suffix in _READ and path.is_file()]
    return content_hash({path.relative_to(folder).as_posix(): file_sha256(path) for path in read})[:_DIGITS]
