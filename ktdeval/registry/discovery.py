"""Installed plugins: the entry points of one group, located without importing `importlib.metadata`
where that is safe.

`importlib.metadata` loads the email, zip and csv machinery to read a few lines of INI. The files it
reads are a stable standard, so they are read here directly; where `sys.path` holds anything but
plain folders, or another finder than Python's own offers distributions, the standard library does
the work.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

GROUP = "ktdeval"

_METADATA_SUFFIXES = (".dist-info", ".egg-info")


@dataclass(frozen=True, slots=True)
class EntryPoint:
    """One advertised plugin: `module` (and `attribute` in it, if any), and the distribution that
    advertises it.
    """

    name: str
    module: str
    attribute: str
    distribution: str
    version: str

    @property
    def value(self) -> str:
        """Return the reference as written, `module` or `module:attribute`."""
        return f"{self.module}:{self.attribute}" if self.attribute else self.module


def find_entry_points() -> list[EntryPoint]:
    """Return the entry points of group `ktdeval` on `sys.path`: ktdeval's own first, then by
    distribution and name. Of two distributions with one name the first on the path counts.
    """
    entries = _standard_library() if _needs_standard_library() else _scan()
    return sorted(
        entries, key=lambda entry: (entry.distribution != "ktdeval", entry.distribution, entry.name)
    )


def _needs_standard_library() -> bool:
    # the backport, which some packages bring, looks in the same folders
    own = ("_frozen_importlib_external", "importlib_metadata")
    foreign = any(
        hasattr(finder, "find_distributions") and getattr(finder, "__module__", "") not in own
        for finder in sys.meta_path
    )
    return foreign or any(os.path.isfile(entry) for entry in sys.path)  # noqa: PTH113 - pathlib costs an import here


def _standard_library() -> Iterator[EntryPoint]:
    import importlib.metadata  # noqa: PLC0415 - slow, see above

    seen = set()
    for distribution in importlib.metadata.distributions():
        try:
            name = _normalise(distribution.metadata["Name"] or "")
        except FileNotFoundError:
            # The backport, which some packages bring, raises at a folder that an uninstall left
            # half behind.
            continue

        if name in seen:
            continue

        seen.add(name)
        for entry in distribution.entry_points:
            if entry.group == GROUP:
                yield EntryPoint(
                    entry.name, entry.module, entry.attr or "", name, distribution.version
                )


def _scan() -> Iterator[EntryPoint]:
    seen: set[str] = set()
    for entry in dict.fromkeys(sys.path):
        try:
            folder = os.path.abspath(entry)  # noqa: PTH100
            changed = os.stat(folder).st_mtime_ns  # noqa: PTH116
        except OSError:
            # sys.path may name folders that do not exist or can't be read, the one that the process
            # is in among them.
            continue

        for distribution, entries in _advertised(folder, changed):
            if distribution not in seen:
                seen.add(distribution)
                yield from entries


@lru_cache(maxsize=64)  # a command loads its plugins more than once
def _advertised(folder: str, changed: int) -> list[tuple[str, list[EntryPoint]]]:  # noqa: ARG001 - the time is for the cache
    """Return the distributions of a folder by normalised name, each with its plugins; an
    installation changes the folder's time.
    """
    try:
        with os.scandir(folder) as listing:
            names = sorted(item.name for item in listing if item.name.endswith(_METADATA_SUFFIXES))
    except OSError:
        return []

    distributions = []
    for stem in names:
        name, _, rest = stem.rpartition(".")[0].partition("-")
        distribution = _normalise(name)
        version = rest.partition("-")[0]
        text = _read_entry_points(os.path.join(folder, stem, "entry_points.txt"))  # noqa: PTH118
        references = _parse_entry_points(text) if f"[{GROUP}]" in text else ()
        distributions.append(
            (distribution, [EntryPoint(*entry, distribution, version) for entry in references])
        )

    return distributions


def _read_entry_points(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:  # most distributions have no entry points; a metadata file has no folder inside
        return ""


def _parse_entry_points(text: str) -> Iterator[tuple[str, str, str]]:
    section = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1]
        elif section == GROUP and line and not line.startswith("#"):
            name, _, value = line.partition("=")
            module, _, attribute = value.partition("[")[0].partition(":")
            yield name.strip(), module.strip(), attribute.strip()


def _normalise(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
