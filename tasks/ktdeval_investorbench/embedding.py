"""Vectors of texts: a protocol, and a local default that needs no download and gives the same on every machine."""

from __future__ import annotations

import itertools
import re
import zlib
from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]

_WORD = re.compile(r"\w+")
_SIZE = 256
CACHED = 1 << 15  #: vectors kept by text


class Embedder(Protocol):
    """Turns texts into vectors."""

    def __call__(self, texts: Sequence[str]) -> Vectors:
        """Return [texts, floats] unit vectors (float32); a text that says nothing may be all 0."""


class HashingEmbedder:
    """Signed hashing of words and pairs of words to 256 floats of unit length. The latest vectors are kept, by text."""

    def __init__(self) -> None:
        self._vector = lru_cache(CACHED)(_hashed)

    def __call__(self, texts: Sequence[str]) -> Vectors:
        """Return [texts, 256] unit vectors."""
        return np.stack([self._vector(text) for text in texts]) if texts else np.zeros((0, _SIZE), np.float32)


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
