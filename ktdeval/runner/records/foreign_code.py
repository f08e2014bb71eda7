"""Foreign code: every package of plugins in this process that is not part of ktdeval's own
installation, whatever it offers.

A plugin that offers only a metric runs in the same process as the calls of a model, and can change
each reply before it is recorded. What a process imports without a plugin can't be told apart from
the libraries that it needs, so it is not listed.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path

from ktdeval.cards.fields.origin.fact_types import ForeignPackage
from ktdeval.registry.discovery import EntryPoint, find_entry_points
from ktdeval.registry.own_files import is_own_file
from ktdeval.registry.plugin_registry import PluginInfo, Plugins
from ktdeval.values.hashes import file_sha256, sha256_hex

_AT_START = ("sitecustomize", "usercustomize")  # modules that Python itself imports at its start


def foreign_packages(plugins: Plugins) -> tuple[ForeignPackage, ...]:
    """Return the foreign packages in this process, sorted: loaded plugins, plugins that failed
    while they were imported, and the modules that Python imports at its start.
    """
    found = set(map(_package, filter(is_foreign, plugins.info.values())))
    found.update(_failed_packages(plugins))
    found.update(_start_modules())
    return unite_packages(found)


def unite_packages(*groups: Iterable[ForeignPackage]) -> tuple[ForeignPackage, ...]:
    """Return the packages of several sessions or parts of a run, sorted, each once."""
    united = {package for group in groups for package in group}
    return tuple(sorted(united, key=lambda each: (each.name, each.version, each.sha256)))


def is_foreign(info: PluginInfo) -> bool:
    """Return whether any file with a plugin's code is not of ktdeval's own installation."""
    return not info.files or not all(map(is_own_file, info.files))


def _package(info: PluginInfo) -> ForeignPackage:
    """Return the package of a foreign plugin, with the files of its top-level package."""
    module = info.name.partition(":")[0].partition(".")[0]
    top = getattr(sys.modules.get(module), "__file__", None)
    files = [file for file in (*info.files, top) if file and not is_own_file(file)]
    return ForeignPackage(
        name=info.distribution or Path(module).name,
        version=info.version,
        sha256=_hash_of(map(Path, files)),
    )


def _failed_packages(plugins: Plugins) -> Iterator[ForeignPackage]:
    """Yield the installed plugins that could not be imported, since part of their code ran."""
    for entry in find_entry_points():
        if entry.value not in plugins.broken or entry.value in plugins.info:
            continue

        file = _file_of(entry)
        if file is not None and not is_own_file(file):
            yield ForeignPackage(
                name=entry.distribution, version=entry.version, sha256=_hash_of([Path(file)])
            )


def _file_of(entry: EntryPoint) -> str | None:
    """Return the file of a plugin that could not be imported; None if there is no such module, so
    that nothing ran.
    """
    try:
        spec = find_spec(entry.module)
    except (ImportError, ValueError, AttributeError):  # of the package that contains the module
        spec = find_spec(entry.module.partition(".")[0])

    return None if spec is None else spec.origin


def _start_modules() -> Iterator[ForeignPackage]:
    """Yield the modules that Python imports at its start, unless they came with Python."""
    standard = Path(sysconfig.get_path("stdlib"))
    packages = {Path(sysconfig.get_path(name)) for name in ("purelib", "platlib")}
    for name in _AT_START:
        file = Path(getattr(sys.modules.get(name), "__file__", None) or standard / name)
        is_added = file.parent in packages or not file.is_relative_to(standard)
        if is_added:
            yield ForeignPackage(name=name, sha256=_hash_of([file]))


def _hash_of(files: Iterable[Path]) -> str:
    """Return the SHA-256 of a module's file. For a package, return that of the list of its files
    that `sha256sum` writes, sorted by path.
    """
    sources = sorted({source for file in files for source in _sources(file)})
    if len(sources) == 1:
        return file_sha256(sources[0])

    root = os.path.commonpath(sources) if sources else ""
    lines = [f"{file_sha256(path)}  {path.relative_to(root).as_posix()}\n" for path in sources]
    return sha256_hex("".join(lines))


def _sources(file: Path) -> Iterator[Path]:
    """Yield the file of a module, or the files of a package without those that Python writes
    itself. A module inside an archive gives the archive.
    """
    path = file.resolve()
    if path.name == "__init__.py" and path.is_file():
        for each in path.parent.rglob("*"):
            if each.is_file() and "__pycache__" not in each.parts:
                yield each
        return

    for each in (path, *path.parents):
        if each.is_file():
            yield each
            return
