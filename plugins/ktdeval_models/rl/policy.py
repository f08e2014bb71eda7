"""Policy of SELL, HOLD or BUY as a file: a small network's weights as JSON, read without running code, applied by NumPy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from ktdeval.contracts import Window
from ktdeval.errors import DataError
from ktdeval.harness import HoldRule
from ktdeval.jsonio import read_plain, sha256_hex
from ktdeval.market import FloatArray
from ktdeval.typed import Value, decode_json

Algorithm = Literal["a2c", "ppo", "dqn"]
Vector = npt.NDArray[np.float32]
DECISIONS = ("SELL", "HOLD", "BUY")  #: by the number of the action
LIMIT = 10.0  #: largest size of a scaled return
MOST_BYTES, _LARGEST = 8 << 20, 1e6
_Day = Annotated[str, msgspec.Meta(pattern=r"^\d{4}-\d\d-\d\d\Z")]
_Matrix = tuple[tuple[float, ...], ...]


class PolicyFile(Value):
    """Content of a policy's file: its features, what it was trained on, and the layers of its network."""

    format: Literal["ktdeval-rl-policy/1"]
    algorithm: Algorithm
    activation: Literal["tanh", "relu"]  #: between layers
    lookback: Annotated[int, msgspec.Meta(ge=1, le=499)]  #: returns in a feature vector
    scale: Annotated[float, msgspec.Meta(ge=1e-9, le=1e9)]  #: what a log return is divided by
    hold: HoldRule  #: what HOLD meant
    task: str
    snapshot: str  #: id of the market
    first: _Day  #: of the fills
    last: _Day  #: of the fills
    steps: int
    seed: int
    libraries: Mapping[str, str]  #: version of each package that trained it
    weights: Annotated[tuple[_Matrix, ...], msgspec.Meta(min_length=1, max_length=8)]  #: [layers][outputs][inputs]
    biases: _Matrix  #: [layers][outputs]


def overlap(first: str, last: str, window: Window) -> str | None:
    """Return why a window can't be evaluated after training from `first` to `last` (ISO days); None if it lies after them."""
    problem = f"window {window.name} ({window.first}:{window.last}) does not lie after the days of training, {first}:{last}"
    return None if last < window.first else f"{problem}; train on earlier days, or evaluate later ones (--windows)"


def features(closes: FloatArray, side: int, lookback: int, scale: float) -> Vector:
    """Return the feature vector of training and evaluation alike, [lookback + 1] float32: the last log returns divided by `scale`,
    oldest first, and the side held (+1, -1, 0). `closes`: adjusted, of days with trade, oldest first. Raises DataError: too few.
    """
    if len(closes) <= lookback:
        raise DataError(f"{len(closes)} closes are known, and {lookback} returns need {lookback + 1}")
    returns = np.diff(np.log(closes[-lookback - 1 :])) / scale
    return np.append(np.clip(returns, -LIMIT, LIMIT), side).astype(np.float32)


class Policy(NamedTuple):
    """Policy as read from its file."""

    content: PolicyFile
    sha256: str  #: of the file
    layers: Sequence[tuple[Vector, Vector]]  #: weights [outputs, inputs] and biases [outputs]

    def values(self, vectors: Vector) -> Vector:
        """[..., 3] preference for each decision, from [..., lookback + 1] feature vectors."""
        for layer, (weights, biases) in enumerate(self.layers):
            if layer:
                vectors = np.tanh(vectors) if self.content.activation == "tanh" else np.maximum(vectors, 0)
            vectors = vectors @ weights.T + biases
        return vectors


def read_policy(path: Path) -> Policy:
    """Read a policy. Raises DataError: no file, too large, malformed, layers that don't fit together, or a number out of range."""
    try:
        data = read_plain(path, MOST_BYTES)
    except OSError as error:
        raise DataError(f"policy {path}: can't be read: {error.strerror or error}; make one with `ktdeval rl train`") from error
    content = decode_json(data, PolicyFile, f"policy {path}", DataError)
    sizes = [content.lookback + 1, *map(len, content.biases)]
    rows = [[size] * outputs for size, outputs in pairwise(sizes)]
    if 0 in sizes or sizes[-1] != len(DECISIONS) or [[*map(len, matrix)] for matrix in content.weights] != rows:
        raise DataError(f"policy {path}: weights and biases don't fit together, {sizes[0]} features and 3 decisions")
    with np.errstate(over="ignore"):
        layers = [[np.array(part, np.float32) for part in layer] for layer in zip(content.weights, content.biases, strict=True)]
    if not all(np.abs(part).max() <= _LARGEST for layer in layers for part in layer):
        raise DataError(f"policy {path}: a weight or bias is not within ±{_LARGEST:g}")
    return Policy(content, sha256_hex(data), [(weights, biases) for weights, biases in layers])
