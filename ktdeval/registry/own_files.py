"""Files of this installation of ktdeval, as opposed to code that somebody else put into the process.

A module's name, its entry point and the distribution that advertises it prove nothing, since each
is chosen by its author. What counts is where its code lies: in the `RECORD` of the wheel that the
running `ktdeval` came from, or in a package of the checkout that it runs from.
"""

from __future__ import annotations

import csv
import sys
from functools import cache
from pathlib import Path
from types import FunctionType, MethodType, ModuleType

import ktdeval

_SOURCES = ("", "tasks", "plugins", "plugins/kits")  # folders of a checkout that hold packages


def is_own_file(file: str) -> bool:
    """Return whether a source file belongs to the installation that this process runs."""
    path = Path(file).resolve()
    recorded = _recorded_files()
    if recorded:
        return path in recorded
    return any(path.is_relative_to(package) for package in _packages_of_checkout())


def code_files(plugin: object) -> tuple[str, ...]:
    """Return the files that hold a plugin's code, sorted: that of its module or class, and those of
    its hooks. A module can state another file than its own, but its functions keep theirs.
    """
    module = plugin
    if not isinstance(plugin, ModuleType):
        module = sys.modules.get(type(plugin).__module__)

    origin = getattr(getattr(module, "__spec__", None), "origin", None)
    found = {getattr(module, "__file__", None), origin}
    for name in dir(plugin):
        value = getattr(plugin, name) if name.startswith("ktdeval_") else None
        if isinstance(value, FunctionType | MethodType):
            found.add(value.__code__.co_filename)

    return tuple(sorted(str(file) for file in found if file))


@cache  # the installation does not change while this process runs
def _recorded_files() -> frozenset[Path]:
    """Return the files listed by the wheel that the running package came from; empty in a
    checkout.
    """
    package = Path(ktdeval.__file__).resolve()
    root = package.parent.parent
    for record in sorted(root.glob("ktdeval-*.dist-info/RECORD")):
        rows = csv.reader(record.read_text(encoding="utf-8").splitlines())
        files = frozenset((root / row[0]).resolve() for row in rows if row)
        if package in files:
            return files

    return frozenset()


@cache
def _packages_of_checkout() -> tuple[Path, ...]:
    """Return the folders of the packages in the checkout that the running package belongs to."""
    root = Path(ktdeval.__file__).resolve().parent.parent
    packages = []
    for source in _SOURCES:
        for entry in (root / source).glob("ktdeval*/__init__.py"):
            packages.append(entry.parent)

    return tuple(packages)
