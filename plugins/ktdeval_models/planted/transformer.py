"""The language model: a causal transformer of four layers and 1.27 million weights, run with NumPy.

`training` has the same network in torch. Layers are pre-norm (Xiong et al. 2020), attention and
feed-forward blocks follow GPT-2 (Radford et al. 2019), and the output weights are tied to the
embedding weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ktdeval_models.planted.reduced_text import ANSWERS, FIRST_ANSWER, LINE, VOCABULARY, Tokens

Matrix = npt.NDArray[np.float32]

_EPSILON = 1e-5  # epsilon of torch's LayerNorm
_ROWS = 256  # lines processed at a time


@dataclass(frozen=True)
class Shape:
    """Size of the network."""

    width: int = 160
    layers: int = 4
    heads: int = 4

    def weights(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Yield the name and shape of each weight array, in file order."""
        width = self.width
        yield "token", (VOCABULARY, width)
        yield "place", (LINE, width)
        for layer in range(self.layers):
            yield f"{layer}.norm_in.weight", (width,)
            yield f"{layer}.norm_in.bias", (width,)
            yield f"{layer}.attend.weight", (3 * width, width)
            yield f"{layer}.attend.bias", (3 * width,)
            yield f"{layer}.mix.weight", (width, width)
            yield f"{layer}.mix.bias", (width,)
            yield f"{layer}.norm_out.weight", (width,)
            yield f"{layer}.norm_out.bias", (width,)
            yield f"{layer}.widen.weight", (4 * width, width)
            yield f"{layer}.widen.bias", (4 * width,)
            yield f"{layer}.narrow.weight", (width, 4 * width)
            yield f"{layer}.narrow.bias", (width,)

        yield "norm.weight", (width,)
        yield "norm.bias", (width,)

    @property
    def size(self) -> int:
        """Number of weights."""
        return sum(int(np.prod(shape)) for _, shape in self.weights())


@dataclass(frozen=True)
class Transformer:
    """Network with its weights, keyed by the names in `Shape.weights`."""

    shape: Shape
    weights: Mapping[str, Matrix]

    @classmethod
    def of_bytes(cls, shape: Shape, data: bytes) -> Transformer:
        """Read weights: little-endian float32 in the order of `Shape.weights`, without padding.
        Raises ValueError if the number of weights is wrong, or if a weight is not finite.
        """
        numbers = np.frombuffer(data, "<f4")  # ValueError if the last number is incomplete
        if len(numbers) != shape.size:
            raise ValueError(f"{len(numbers):,} weights, expected {shape.size:,}")
        if not np.isfinite(numbers).all():
            raise ValueError("a weight is not finite")

        weights = {}
        first = 0
        for name, dimensions in shape.weights():
            last = first + int(np.prod(dimensions))
            weights[name] = numbers[first:last].reshape(dimensions).astype(np.float32)
            first = last

        return cls(shape, weights)

    def to_bytes(self) -> bytes:
        """Return the weights in the format that `of_bytes` reads."""
        arrays = [self.weights[name].astype("<f4").tobytes() for name, _ in self.shape.weights()]
        return b"".join(arrays)

    def answers(self, tokens: Tokens) -> Matrix:
        """Return the probability of each answer after each line, given that the next token is an
        answer: [N, ANSWERS] for lines [N, LINE].
        """
        parts = [np.empty((0, ANSWERS), np.float32)]
        for first in range(0, len(tokens), _ROWS):
            parts.append(self._answers(tokens[first : first + _ROWS]))
        return np.concatenate(parts)

    def _answers(self, tokens: Tokens) -> Matrix:
        states = self.weights["token"][tokens] + self.weights["place"]
        for layer in range(self.shape.layers):
            states = states + self._attend(states, layer)
            widened = self._linear(self._norm(states, f"{layer}.norm_out"), f"{layer}.widen")
            states = states + self._linear(_gelu(widened), f"{layer}.narrow")

        last = self._norm(states[:, -1], "norm")
        output = self.weights["token"][FIRST_ANSWER:]
        return _softmax(last @ output.T)

    def _attend(self, states: Matrix, layer: int) -> Matrix:
        """Return the output of a layer's attention; each token attends to itself and to earlier
        tokens.
        """
        lines, length, width = states.shape
        heads = self.shape.heads
        mixed = self._linear(self._norm(states, f"{layer}.norm_in"), f"{layer}.attend")
        # [3, lines, heads, length, head width]
        split = mixed.reshape(lines, length, 3, heads, width // heads).transpose(2, 0, 3, 1, 4)
        query, key, value = split
        scores = query @ key.swapaxes(-1, -2) / np.float32(np.sqrt(width // heads))
        later = np.triu(np.ones((length, length), dtype=bool), 1)
        scores[..., later] = -np.inf
        read = (_softmax(scores) @ value).transpose(0, 2, 1, 3).reshape(lines, length, width)

        return self._linear(read, f"{layer}.mix")

    def _linear(self, states: Matrix, name: str) -> Matrix:
        linear: Matrix = states @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]
        return linear

    def _norm(self, states: Matrix, name: str) -> Matrix:
        centred = states - states.mean(axis=-1, keepdims=True)
        variance = (centred * centred).mean(axis=-1, keepdims=True)
        normed = centred / np.sqrt(variance + np.float32(_EPSILON))
        scaled: Matrix = normed * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]
        return scaled


def _gelu(states: Matrix) -> Matrix:
    """Return the tanh approximation of GELU (Hendrycks and Gimpel 2016)."""
    inner = np.float32(np.sqrt(2 / np.pi)) * (
        states + np.float32(0.044715) * states * states * states
    )
    half = np.float32(0.5) * states
    return np.asarray(half * (np.float32(1) + np.tanh(inner)), dtype=np.float32)


def _softmax(scores: Matrix) -> Matrix:
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True), np.float32)
