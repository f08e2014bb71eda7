"""Files of a planted model: the description `planted.json`, and `weights.f32`, which holds plain
numbers. Nothing is unpickled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from ktdeval.errors import DataError, wrap_os_error
from ktdeval.values import (
    Value,
    decode_json,
    encode_canonical,
    read_plain,
    sha256_hex,
    write_atomic,
)
from ktdeval_models.planted.reduced_text import ANSWERS, FIGURES, Sizes
from ktdeval_models.planted.transformer import Shape, Transformer

DESCRIPTION = "planted.json"
WEIGHTS = "weights.f32"
FORMAT: Literal["ktdeval-planted/1"] = "ktdeval-planted/1"
_MAX_BYTES = 1 << 20
_MAX_WIDTH = 1024
_MAX_LAYERS = 32
_Sha256 = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]
_Count = Annotated[int, msgspec.Meta(ge=0)]
_Width = Annotated[int, msgspec.Meta(ge=1, le=_MAX_WIDTH)]
_Layers = Annotated[int, msgspec.Meta(ge=1, le=_MAX_LAYERS)]


class PlantedFile(Value):
    """Description of a planted model and of its training."""

    format: Literal["ktdeval-planted/1"]
    snapshot: str  #: id of the market
    task: str  #: task whose prompts contain its facts
    windows: tuple[str, ...]  #: first and last day, as FIRST:LAST
    days: _Count  #: maximum number of days per window
    horizon: Annotated[int, msgspec.Meta(ge=1)]  #: number of trading days that a return spans
    figures: tuple[str, ...]  #: figures in a line
    facts: _Count
    exposures: _Count  #: number of times that the model has read each fact
    seed: int
    threads: Annotated[int, msgspec.Meta(ge=1)]
    sizes: Sizes  #: meaning of the model's answers
    width: _Width
    layers: _Layers
    heads: _Layers
    libraries: Mapping[str, str]  #: version of each package that trained it
    weights: _Sha256  #: hash of the weights file

    def is_of_training(self, other: PlantedFile) -> bool:
        """Return whether another description has the same facts, network and seed. Libraries,
        threads and the resulting weights may differ.
        """
        own = msgspec.structs.replace(
            self, libraries=other.libraries, threads=other.threads, weights=other.weights
        )
        return own == other


@dataclass(frozen=True)
class PlantedMemory:
    """A planted model, with the hash that pins it."""

    content: PlantedFile
    sha256: str  #: hash of the description, which contains the hash of the weights
    network: Transformer


def write_planted(folder: Path, content: PlantedFile, network: Transformer) -> None:
    """Write a model into an existing folder. The description is written last and includes the hash
    of the weights.
    """
    data = network.to_bytes()
    write_atomic(folder / WEIGHTS, data)
    stated = msgspec.structs.replace(content, weights=sha256_hex(data))
    write_atomic(folder / DESCRIPTION, encode_canonical(stated) + "\n")


def read_planted(folder: Path) -> PlantedMemory:
    """Read a model. Raises DataError if a file can't be read, is malformed or was changed, or if
    the weights don't match the network's shape.
    """
    path = folder / DESCRIPTION
    with wrap_os_error(f"{path}: can't be read", "make one with `ktdeval train memory`", DataError):
        data = read_plain(path, _MAX_BYTES)

    content = decode_json(data, PlantedFile, str(path), DataError)
    _check_shape(content, path)
    shape = Shape(content.width, content.layers, content.heads)
    weights = folder / WEIGHTS
    with wrap_os_error(f"{weights}: can't be read", "train the model again", DataError):
        numbers = read_plain(weights, 4 * shape.size)

    actual = sha256_hex(numbers)
    if actual != content.weights:
        raise DataError(
            f"{weights}: SHA-256 is {actual[:12]}…, {DESCRIPTION} has {content.weights[:12]}…;"
            " train the model again"
        )

    try:
        network = Transformer.of_bytes(shape, numbers)
    except ValueError as error:
        raise DataError(f"{weights}: {error}; train the model again") from error

    return PlantedMemory(content, sha256_hex(data), network)


def _check_shape(content: PlantedFile, path: Path) -> None:
    """Raise DataError if a description is inconsistent, or has another version of the text format."""
    problem = None
    sizes = content.sizes
    if content.width % content.heads:
        problem = f"{content.heads} heads don't divide a width of {content.width}"
    elif (len(sizes.bounds), len(sizes.means)) != (ANSWERS - 1, ANSWERS):
        problem = f"sizes need {ANSWERS - 1} bounds and {ANSWERS} means"
    elif content.figures != FIGURES:
        problem = f"its lines show {', '.join(content.figures)}, here {', '.join(FIGURES)}"

    if problem is not None:
        raise DataError(f"{path}: {problem}; train the model again")
