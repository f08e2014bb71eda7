"""All typed classes of the project: values in files, options, and other dataclasses."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
import sys
import tomllib
import typing
from collections.abc import Iterator

from support.paths import REPOSITORY


def typed_classes() -> list[type]:
    """Return every dataclass and `msgspec.Struct` of the packages, in order."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))
    packages = project["tool"]["importlinter"]["root_packages"]
    found = set()

    for name in _modules(packages):
        for made in vars(sys.modules[name]).values():
            if inspect.isclass(made) and made.__module__ == name and _is_typed(made):
                found.add(made)

    return sorted(found, key=lambda made: (made.__module__, made.__qualname__))


def hints_of(made: type) -> dict[str, typing.Any]:
    """Return the annotations of the fields of a class, with their marks; as text where a name in
    one is known to type checkers only.
    """
    try:
        return typing.get_type_hints(made, include_extras=True)
    except NameError:
        return dict(vars(made).get("__annotations__", {}))


def _is_typed(made: type) -> bool:
    return dataclasses.is_dataclass(made) or hasattr(made, "__struct_fields__")


def _modules(packages: list[str]) -> Iterator[str]:
    """Yield the modules that can be imported with the extras that are installed."""
    for package in packages:
        root = importlib.import_module(package)
        yield package
        for info in pkgutil.walk_packages(root.__path__, f"{package}."):
            if info.name.endswith("__main__"):
                continue

            try:
                importlib.import_module(info.name)
            except ImportError:
                continue

            yield info.name
