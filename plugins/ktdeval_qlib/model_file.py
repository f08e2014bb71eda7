"""Folder of a trained baseline: its description and its log; read without torch or pyqlib."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import msgspec
import numpy as np

from ktdeval.errors import DataError
from ktdeval.jsonio import file_sha256, read_plain, sha256_hex
from ktdeval.typed import Value, decode_json
from ktdeval_qlib.recipes import FACTORS, Device, recipes
from ktdeval_qlib.samples import Label, Scaler, Segments

DESCRIPTION = "trained.json"
LOG = "log.json"
_MOST_BYTES = 1 << 20
_Sha256 = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]
_File = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_-]{1,60}(\.[a-z0-9]{1,12})?\Z")]
_Scales = Annotated[tuple[float | None, ...], msgspec.Meta(min_length=FACTORS, max_length=FACTORS)]


class ModelFile(Value):
    """Description of a trained baseline and its training."""

    format: Literal["ktdeval-qlib-model/1"]
    model: str  #: name of the recipe, such as lightgbm
    recipe: _Sha256  #: of the recipe's content
    snapshot: str  #: id of the market
    label: Label
    wanted: Segments  #: as requested
    used: Segments  #: as trained: cut to the snapshot, and purged
    seed: int
    rounds: int | None  #: instead of the published number
    threads: int
    device: Device
    shuffled: bool  #: a control: labels permuted within each day
    center: _Scales  #: median of each factor over the samples of training; null if none was known
    scale: _Scales  #: 1.4826 median absolute deviations
    libraries: Mapping[str, str]  #: version of each package in use
    files: Mapping[_File, _Sha256]  #: SHA-256 of each further file of the folder

    @property
    def scaler(self) -> Scaler:
        """Return the scaler of the training samples."""
        return Scaler(np.array(self.center, dtype=float), np.array(self.scale, dtype=float))

    @property
    def last_day(self) -> str:
        """Return the last day of the requested training and validation: their labels end there."""
        return self.wanted.valid.last


class Accuracy(Value):
    """Rank IC of a segment: mean over days, and its 95 % interval (Newey and West); null with too few days."""

    days: int
    rank_ic: float | None
    low: float | None
    high: float | None


class TrainingLog(Value):
    """Log of a training: facts that are not part of the model."""

    seconds: float
    rounds: int  #: done, early stopping included; 0 of a closed form
    accuracy: Mapping[str, Accuracy]  #: by segment


class Trained(NamedTuple):
    """Description of a trained baseline, with the hash that pins it."""

    content: ModelFile
    sha256: str


def read_model(folder: Path) -> Trained:
    """Read a folder's description and check its files. Raises DataError: it is missing or malformed, or a file's hash differs."""
    path = folder / DESCRIPTION
    try:
        data = read_plain(path, _MOST_BYTES)
    except OSError as error:
        raise DataError(f"{path}: can't be read: {error.strerror or error}; make one with `ktdeval train`") from error
    content = decode_json(data, ModelFile, str(path), DataError)
    if content.model not in recipes():
        raise DataError(f"{path}: {content.model!r} is not a baseline of this version")
    for name, stated in content.files.items():
        try:
            actual = file_sha256(folder / name)
        except OSError as error:
            raise DataError(f"{folder / name}: can't be read: {error.strerror or error}; train the model again") from error
        if actual != stated:
            raise DataError(f"{folder / name}: SHA-256 is {actual[:12]}…, {DESCRIPTION} has {stated[:12]}…; train the model again")
    return Trained(content, sha256_hex(data))


def read_log(folder: Path) -> TrainingLog:
    """Read a folder's log. Raises DataError."""
    try:
        return decode_json(read_plain(folder / LOG), TrainingLog, str(folder / LOG), DataError)
    except OSError as error:
        raise DataError(f"{folder / LOG}: can't be read: {error.strerror or error}") from error
