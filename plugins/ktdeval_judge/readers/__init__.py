"""Readers of other programs' files: which there are, and which one reads a file.

A reader is a module with `name`, `recognises` and `read`. `read_declared` reads a file, or a folder
with the files of one program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Protocol, TypeVar

import pandas as pd

from ktdeval.errors import DataError, UsageError
from ktdeval.values import content_hash, file_sha256, near_matches
from ktdeval_judge.declared import Declared
from ktdeval_judge.readers import (
    ai_hedge_fund,
    alpaca,
    backtrader,
    bt,
    finrl,
    interactive_brokers,
    lean,
    plain,
    qlib,
    tradingagents,
    vectorbt,
    zipline,
)
from ktdeval_judge.readers.frames import RETURNS_ONLY
from ktdeval_judge.readers.sample import (
    FileSample as FileSample,
    ReadOptions as ReadOptions,
    check_file,
    refuse_pickle,
    sample_of as sample_of,
)

Frame = TypeVar("Frame", pd.DataFrame, pd.Series)
MAX_FILES = 20_000
_SUFFIXES = (".csv", ".json", ".parquet", ".gz")
_PICKLES = (".pkl", ".pickle")


class Reader(Protocol):
    """What a reader's module has."""

    @property
    def name(self) -> str:
        """Name of the program, for `--from`."""

    def recognises(self, sample: FileSample, /) -> bool:
        """Whether a file is of the program, by its columns or keys."""

    def read(self, path: Path, options: ReadOptions, /) -> Declared:
        """Return what a file declares. Raises DataError."""


READERS: tuple[Reader, ...] = (
    ai_hedge_fund,
    alpaca,
    backtrader,
    bt,
    finrl,
    interactive_brokers,
    lean,
    qlib,
    tradingagents,
    vectorbt,
    zipline,
)
"""Readers of programs. `plain`, which is none of them, reads what no program's reader recognises."""

_TOGETHER: Mapping[str, Callable[[Sequence[Path], ReadOptions], Declared]] = MappingProxyType(
    {tradingagents.name: tradingagents.read_all}
)
"""Readers whose files mean something only together."""


def read_declared(path: Path, options: ReadOptions) -> Declared:
    """Return what the files of a program declare: one file, or all in a folder.

    Raises UsageError: there is no reader of that name. Raises DataError: several readers recognise
    the file, or it has a fault, with its place.
    """
    named = None
    if options.program is not None:
        named = reader_named(options.program)

    if not path.is_dir():
        if named is None:
            named = reader_of(sample_of(path))
        else:
            check_file(path)

        return named.read(path, options)

    files = _files_in(path)
    reader = named or _reader_of_all(path, files)
    if reader.name in _TOGETHER:
        return _TOGETHER[reader.name](files, options)

    return _merge_declared(path, [reader.read(file, options) for file in files])


def reader_named(program: str) -> Reader:
    """Return the reader of a program. Raises UsageError: there is none."""
    by_name = {reader.name: reader for reader in (*READERS, plain)}
    if program in by_name:
        return by_name[program]

    known = near_matches(program[:40], by_name) or f"; there are {', '.join(by_name)}"
    raise UsageError(f"--from: no reader {program[:40]!r}{known}")


def reader_of(sample: FileSample) -> Reader:
    """Return the reader that recognises a file. Raises DataError: several do."""
    found = [reader for reader in READERS if reader.recognises(sample)]
    if len(found) > 1:
        names = " or of ".join(reader.name for reader in found)
        raise DataError(f"{sample.path}: may be a file of {names}; choose with --from")

    return found[0] if found else plain


def source_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, or of the names and hashes of a folder's files."""
    if not path.is_dir():
        return file_sha256(path)

    return content_hash(
        [[str(file.relative_to(path)), file_sha256(file)] for file in _files_in(path)]
    )


# ---- folders


def _files_in(folder: Path) -> list[Path]:
    found = [path for path in folder.rglob("*") if path.is_file()]
    files = sorted(path for path in found if path.suffix.lower() in _SUFFIXES)
    if not files:
        for path in found:
            if path.suffix.lower() in _PICKLES:
                refuse_pickle(path)
        raise DataError(f"{folder}: holds no .csv, .json or .parquet file; export some into it")
    if len(files) > MAX_FILES:
        raise DataError(f"{folder}: holds more than {MAX_FILES} files; give a smaller folder")

    return files


def _reader_of_all(folder: Path, files: Sequence[Path]) -> Reader:
    """Return the reader that recognises files of a folder; some tables have no names of their own and
    are of the same program.
    """
    found: dict[str, tuple[Reader, Path]] = {}
    samples = [sample_of(file) for file in files]
    for sample in samples:
        matching = [reader for reader in READERS if reader.recognises(sample)]
        if len(matching) == 1:
            found.setdefault(matching[0].name, (matching[0], sample.path))

    if not found:
        return plain
    if len(found) > 1:
        shown = ", ".join(f"{path.name} ({name})" for name, (_, path) in sorted(found.items()))
        raise DataError(f"{folder}: holds files of several programs: {shown}; give each a folder")

    return next(iter(found.values()))[0]


def _merge_declared(folder: Path, parts: Sequence[Declared]) -> Declared:
    """Return what several files of one program declare together. Values in money win over those that
    returns give.
    """
    if len(parts) == 1:
        return parts[0]

    in_money = [part for part in parts if part.values is not None and not _is_index(part)]
    indices = [part for part in parts if _is_index(part)]
    others = [part for part in parts if part.values is None]
    kept = [*others, *(in_money or indices)]
    cashes = [part.cash for part in kept if part.cash is not None]
    if others and not in_money:
        cashes = []  # an account of 1 tells nothing of trades in money

    # each file of a program tends to say the same: once is enough
    notes: dict[str, None] = {}
    for part in kept:
        notes.update(dict.fromkeys(part.notes))

    return replace(
        parts[0],
        source=folder.name,
        decisions=_one(folder, kept, "decisions", [part.decisions for part in kept]),
        trades=_one(folder, kept, "trades", [part.trades for part in kept]),
        values=_one(folder, kept, "account values", [part.values for part in kept]),
        benchmark=_one(folder, kept, "benchmark", [part.benchmark for part in kept]),
        fees=_one(folder, kept, "fees", [part.fees for part in kept]),
        cash=cashes[0] if cashes else None,
        notes=tuple(notes),
    )


def _is_index(part: Declared) -> bool:
    """Whether values are those of an account of 1, from returns."""
    return RETURNS_ONLY in part.notes


def _one(
    folder: Path, parts: Sequence[Declared], what: str, found: Sequence[Frame | None]
) -> Frame | None:
    """Return the only one of what files declare; two that are equal count as one."""
    first: tuple[str, Frame] | None = None
    for part, each in zip(parts, found, strict=True):
        if each is None:
            continue
        if first is None:
            first = (part.source, each)
        elif not first[1].equals(each):
            raise DataError(
                f"{folder}: {first[0]} and {part.source} both declare {what}; keep one of them"
            )

    return None if first is None else first[1]
