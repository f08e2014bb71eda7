"""Public names of a package, loaded on first use.

A package lists its public names once, as imports in `__init__.pyi`, which type checkers and readers
see. `__init__.py` contains

    __getattr__, __dir__ = lazy_exports(__name__, __file__)

so that a manifest that needs a single lightweight name does not have to load pandas (PEP 562).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any


def later(reference: str) -> Callable[[], Any]:
    """Return a function that, when called, imports and returns the object given by a reference
    `module:name`.
    """
    module, _, name = reference.partition(":")
    return lambda: getattr(import_module(module), name)


def maker(reference: str, *first: Any) -> Callable[..., Any]:
    """Return a function that, when called, imports the object given by a reference `module:name`,
    and calls it with `first` followed by the function's own arguments.
    """
    return lambda *args: later(reference)()(*first, *args)


def lazy_exports(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for a module (`__name__`, `__file__`) whose stub imports
    its public names. The stub is read when a name is first requested; `__all__` is among the names.
    A name of a package that is not installed raises PluginError.
    """

    def names() -> list[str]:
        return sorted(_modules_by_name(file))

    def load(name: str) -> Any:
        if name == "__all__":
            return names()

        module = _modules_by_name(file).get(name)
        if module is None:
            from ktdeval.values.options.config_options import near_matches  # noqa: PLC0415 - only on the way to an error

            raise AttributeError(f"{package} has no name {name!r}{near_matches(name, names())}")

        value = getattr(_import_home(module, f"{package}.{name}"), name)
        # The next use of the name is then an ordinary look-up.
        setattr(sys.modules[package], name, value)
        return value

    return load, names


def _import_home(module: str, wanted: str) -> ModuleType:
    """Import the module that defines a name. Raises PluginError if it belongs to another package,
    which is not installed.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        if error.name != package:
            raise

        from ktdeval.errors import PluginError  # noqa: PLC0415 - only on the way to an error

        raise PluginError(
            f"{wanted} comes from {package}, which this installation lacks; reinstall ktdeval"
        ) from error


@cache
def _modules_by_name(file: str) -> dict[str, str]:
    # Help output uses no public name, so it does not need the modules that parse them.
    import ast  # noqa: PLC0415
    from pathlib import Path  # noqa: PLC0415

    tree = ast.parse(Path(file).with_suffix(".pyi").read_text(encoding="utf-8"))
    modules: dict[str, str] = {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                modules[alias.asname or alias.name] = node.module

    return modules
