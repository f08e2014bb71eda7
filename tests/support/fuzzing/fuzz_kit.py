"""What a parser under test is, and how bytes reach one that reads a file."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import gettempdir

from ktdeval.errors import KtdevalError

TYPED: tuple[type[Exception], ...] = (KtdevalError,)


@dataclass(frozen=True)
class Parser:
    """A parser under test."""

    parse: Callable[[bytes], object]
    seeds: tuple[bytes, ...]
    modules: tuple[str, ...]  #: modules whose parsing it reaches
    #: further errors that its callers catch, as its docstring says
    expected: tuple[type[Exception], ...] = ()


def text_of(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape").encode("utf-8", "replace").decode("utf-8")


def scratch() -> Path:
    """Return a folder of this process: several parsers may be fuzzed at once."""
    folder = Path(gettempdir()) / f"ktdeval-fuzz-{os.getpid()}"
    folder.mkdir(exist_ok=True)
    return folder


def of_file(load: Callable[[Path], object], name: str) -> Callable[[bytes], object]:
    """Return a parser of bytes from one of a file."""

    def parse(data: bytes) -> object:
        path = scratch() / name
        path.write_bytes(data)
        return load(path)

    return parse


def in_folder(name: str, load: Callable[[Path], object]) -> Callable[[bytes], object]:
    """Return a parser of bytes from one of a folder with a file of this name."""

    def parse(data: bytes) -> object:
        folder = scratch() / "folder"
        folder.mkdir(exist_ok=True)
        (folder / name).write_bytes(data)
        return load(folder)

    return parse


def outcome(parser: Parser, data: bytes) -> Exception | None:
    """Return the defect that an input shows: an exception that is not typed; None if there is none."""
    try:
        parser.parse(data)
    except (*TYPED, *parser.expected):
        return None
    except Exception as error:  # noqa: BLE001 - what is looked for
        return error

    return None
