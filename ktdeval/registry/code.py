"""Hashes of the code that this process runs: the code of ktdeval itself and of each plugin."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from ktdeval.registry.plugin_registry import Plugins

_DIGITS = 16
_KITS = (
    "ktdeval",
    "ktdeval_pages",
    "ktdeval_memory",
    "ktdeval_tables",
    "ktdeval_raw_markets",
)  #: packages that are not plugins
#: types of files that determine a package's behaviour: its code, and the tables and texts that it
#: reads
_SUFFIXES = frozenset({".py", ".yaml", ".csv", ".json", ".sql", ".md", ".txt"})
_README = "README.md"  #: page of a package for readers, which no code reads


def code_hashes(plugins: Plugins) -> dict[str, str]:
    """Return hashes of the code of ktdeval and of each loaded plugin, keyed by name.

    Two machines with the same hashes run the same code, whatever folder it is installed in. Task
    files are excluded, since each task has its own hash.
    """
    found = {}
    for name in _KITS:
        spec = find_spec(name)
        if spec is not None and spec.origin is not None:
            found[name] = _hash_of(Path(spec.origin))

    for name in plugins.info:
        file = _file_of(name)
        if file is not None and file.suffix == ".py":
            found[file.stem if Path(name).exists() else name] = _hash_of(file)

    return dict(sorted(found.items()))


def code_hash(plugins: Plugins) -> str:
    """Return a single hash of all code covered by `code_hashes`, as 16 hexadecimal digits."""
    digest = hashlib.sha256()
    for name, own in code_hashes(plugins).items():
        digest.update(f"{name}\0{own}\0".encode())

    return digest.hexdigest()[:_DIGITS]


def code_differences(recorded: Mapping[str, str], own: Mapping[str, str]) -> list[str]:
    """Return the names whose code differs, or which only one side has."""
    names = sorted(recorded.keys() | own.keys())
    return [name for name in names if recorded.get(name) != own.get(name)]


def _file_of(plugin: str) -> Path | None:
    """Return the file of a plugin, whose name is either a module or a file path. None if no file is
    found.
    """
    module = sys.modules.get(plugin.partition(":")[0])
    file = getattr(module, "__file__", None)
    if file is not None:
        return Path(file)

    path = Path(plugin)
    return path if path.is_file() else None


@cache  # code imported by this process does not change
def _hash_of(file: Path) -> str:
    """Return the hash of a module's file or, if the file is an `__init__.py`, of the whole
    package.
    """
    digest = hashlib.sha256()
    for path, name in _sources(file):
        digest.update(f"{name}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())

    return digest.hexdigest()[:_DIGITS]


def _sources(file: Path) -> Iterator[tuple[Path, str]]:
    """Yield the files of a module or package in order, without tests and the package's README. Each
    file comes with its name relative to the package, which is empty for a module.
    """
    if file.name != "__init__.py":
        yield file, ""  # the file's own name does not count
        return

    root = file.parent
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root)
        if name.as_posix() == _README:
            continue
        if path.suffix in _SUFFIXES and name.parts[0] != "tests" and path.is_file():
            yield path, name.as_posix()
