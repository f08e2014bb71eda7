"""Second stage of the leak linter, which finds paraphrased leaks.

A text can avoid names: `the maker of the nation's most famous spirit` contains none. Each sentence
is therefore compared with sentences of known kind (`anchors.yaml`) by the cosine similarity of
their embeddings, and takes the kind of the nearest sentence. The threshold is estimated for each
encoder from how near harmless sentences come to leaks.
"""

from __future__ import annotations

import math
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Protocol

import numpy as np

from ktdeval.errors import DataError, UsageError
from ktdeval.market import FloatArray
from ktdeval.masking import normalise
from ktdeval.values import import_problem, install_command, load_yaml

ANCHORS_FILE = Path(__file__).with_name("anchors.yaml")
HARMLESS = "none"
FALSE_ALARMS = 0.05  #: fraction of harmless anchors whose lead may exceed the threshold

_END = re.compile(r"(?<=[.!?])\s+|(?<=[。!?;])|;\s+|\n+")
_MIN_LETTERS = 8
_BATCH = 512


class Encoder(Protocol):
    """Encoder of texts as vectors."""

    @property
    def name(self) -> str:
        """Name in reports."""
        ...

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """Return [texts, dimensions] vectors of any length."""
        ...


class NgramEncoder:
    """Encodes texts as counts of letter n-grams, hashed to a fixed number of dimensions. It needs
    no weights, and compares spelling instead of meaning.

    Words in Latin letters give n-grams of 3 to 5 letters, and Chinese text gives n-grams of 1 to 2
    characters.
    """

    name = "letter groups"

    def __init__(self, dimensions: int = 4096) -> None:
        self._dimensions = dimensions

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """Return [texts, dimensions] vectors of 1 + log of the counts."""
        vectors = np.zeros((len(texts), self._dimensions))
        for row, text in enumerate(texts):
            columns: Counter[int] = Counter()
            for group in _letter_groups(normalise(text).lower()):
                columns[zlib.crc32(group.encode()) % self._dimensions] += 1

            for column, count in columns.items():
                vectors[row, column] = 1.0 + math.log(count)

        return vectors


class StaticEncoder:
    """A static sentence-embedding model (model2vec) from a folder; nothing is downloaded.

    Raises ImportError if model2vec can't be imported, and UsageError if the folder has no such
    model.
    """

    def __init__(self, folder: Path) -> None:
        from model2vec import (  # noqa: PLC0415 - an optional package, imported only where it is used
            StaticModel,
        )

        if not (folder / "config.json").is_file():
            raise UsageError(
                f"--embedding-model {folder}: contains no model (config.json is missing); give a"
                " folder written by model2vec"
            )

        try:
            self._model = StaticModel.from_pretrained(str(folder))
        except (OSError, ValueError, KeyError, RuntimeError) as error:
            first = (str(error).splitlines() or [type(error).__name__])[0]
            raise UsageError(
                f"--embedding-model {folder}: can't be loaded: {first[:300]}"
            ) from error

        self.name = f"model2vec {folder.name}"

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """Return [texts, dimensions] vectors."""
        return np.asarray(self._model.encode(list(texts)), dtype=np.float64)


def choose_encoder(model: Path | None) -> Encoder | str:
    """Return the requested encoder, or the reason why it is not available.

    `model` is the folder of a model; None selects letter n-grams. Raises UsageError if the folder
    has no model that can be loaded.
    """
    if model is None:
        return NgramEncoder()
    try:
        return StaticEncoder(model)
    except ImportError as error:
        problem = import_problem(error, "model2vec")
        return f"a sentence-embedding model: {problem}: {install_command('embeddings')}"


@dataclass(frozen=True, slots=True)
class Resemblance:
    """A sentence that resembles a planted leak."""

    category: str  #: kind of the nearest planted sentence
    text: str
    where: str  #: the caller's identifier for the text
    anchor: str  #: the nearest planted sentence
    similarity: float  #: cosine similarity, from -1 to 1


class SimilarityLinter:
    """Finds sentences that resemble planted leaks more than harmless sentences.

    `anchors` contains pairs of a category or `none` and a sentence; the shipped anchors are the
    default. Raises DataError if the anchors lack leaks or harmless sentences, or if the encoder's
    vectors are not finite.
    """

    def __init__(self, encoder: Encoder, anchors: Sequence[tuple[str, str]] | None = None) -> None:
        pairs = shipped_anchors() if anchors is None else tuple(anchors)
        self._encoder = encoder
        self._leaks = [pair for pair in pairs if pair[0] != HARMLESS]
        harmless = [sentence for category, sentence in pairs if category == HARMLESS]
        if not self._leaks or len(harmless) < 2:
            raise DataError(
                "similarity linter: anchors must include leaks and at least two harmless sentences"
            )

        self._leak_vectors = self._embed([sentence for _, sentence in self._leaks])
        self._harmless_vectors = self._embed(harmless)
        self.threshold = _threshold(self._harmless_vectors, self._leak_vectors)
        """Lead over the nearest harmless anchor above which a sentence is reported as a leak."""

    @property
    def encoder_name(self) -> str:
        """Name of the encoder in reports."""
        return self._encoder.name

    def find(self, texts: Sequence[tuple[str, str]]) -> list[Resemblance]:
        """Return the sentences in (text, where) pairs that resemble a leak, in order. Sentences are
        embedded in batches for speed.
        """
        sentences: list[tuple[str, str]] = []
        for text, where in texts:
            sentences += [(text[start:end], where) for start, end in sentences_of(text)]

        # Models repeat sentences, and embedding takes most of the time.
        distinct = list(dict.fromkeys(sentence for sentence, _ in sentences))
        nearest: dict[str, tuple[int, float]] = {}

        for begin in range(0, len(distinct), _BATCH):
            nearest |= self._nearest(distinct[begin : begin + _BATCH])

        resemblances = []
        for sentence, where in sentences:
            if sentence in nearest:
                index, similarity = nearest[sentence]
                category, anchor = self._leaks[index]
                resemblances.append(Resemblance(category, sentence, where, anchor, similarity))

        return resemblances

    def _nearest(self, sentences: Sequence[str]) -> dict[str, tuple[int, float]]:
        """Return the sentences that resemble a leak, each with the index of the nearest leaking
        anchor and the cosine similarity to that anchor.
        """
        vectors = self._embed(sentences)
        to_leaks = vectors @ self._leak_vectors.T
        lead = to_leaks.max(axis=1) - (vectors @ self._harmless_vectors.T).max(axis=1)
        indices = to_leaks.argmax(axis=1)
        rows = np.flatnonzero(lead > self.threshold).tolist()

        return {
            sentences[row]: (int(indices[row]), float(to_leaks[row, indices[row]])) for row in rows
        }

    def _embed(self, texts: Sequence[str]) -> FloatArray:
        """Return unit vectors. A text without any features becomes the zero vector, whose cosine
        similarities are 0.
        """
        vectors = np.asarray(self._encoder.encode(texts), dtype=np.float64)
        if vectors.ndim != 2 or len(vectors) != len(texts) or not np.isfinite(vectors).all():
            raise DataError(
                f"encoder {self._encoder.name}: expected {len(texts)} finite vectors, got shape"
                f" {vectors.shape}"
            )

        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        unit: FloatArray = vectors / np.where(lengths > 0, lengths, 1.0)
        return unit


def sentences_of(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of a text's sentences with at least eight letters."""
    start = 0
    for match in _END.finditer(text):
        yield from _sentence(text, start, match.start())
        start = match.end()

    yield from _sentence(text, start, len(text))


def _sentence(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the span of a sentence without surrounding whitespace, if it is long enough."""
    piece = text[start:end]
    letters = sum(character.isalpha() for character in piece)
    if not piece.isascii():
        letters *= 2  # a Chinese character has as much information as two letters
    if letters >= _MIN_LETTERS:
        yield start + len(piece) - len(piece.lstrip()), start + len(piece.rstrip())


@lru_cache(maxsize=1)
def shipped_anchors() -> tuple[tuple[str, str], ...]:
    """Return the shipped (category, sentence) pairs."""
    pairs: list[tuple[str, str]] = []
    for category, sentences in load_yaml(ANCHORS_FILE).items():
        pairs += [(category, sentence) for sentence in sentences]
    return tuple(pairs)


def _letter_groups(text: str) -> Iterator[str]:
    for word in re.findall(r"[a-z0-9_]+|[^\x00-\x7f]+", text):
        if word.isascii():
            padded = f" {word} "
            sizes: tuple[int, ...] = (3, 4, 5)
        else:
            padded = word
            sizes = (1, 2)

        for size in sizes:
            for at in range(len(padded) - size + 1):
                yield padded[at : at + size]


def _threshold(harmless: FloatArray, leaks: FloatArray) -> float:
    """Return the threshold for the lead of leaks over harmless anchors. Only the fraction
    `FALSE_ALARMS` of the harmless anchors exceeds it when each is compared with the other harmless
    anchors.
    """
    among = harmless @ harmless.T
    np.fill_diagonal(among, -math.inf)
    lead = (harmless @ leaks.T).max(axis=1) - among.max(axis=1)

    return max(0.0, float(np.quantile(lead, 1.0 - FALSE_ALARMS)))
