"""Importing foreign code: whatever it raises becomes one `PluginError` that names the plugin."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from importlib.machinery import SOURCE_SUFFIXES
from types import ModuleType
from typing import Any

from ktdeval.errors import KtdevalError, PluginError


def one_line(error: BaseException) -> str:
    """An exception's text without line breaks."""
    return " ".join(str(error).split()) or "no message"


def import_reference(module: str, attribute: str = "") -> Any:
    """Import `module`, or what `attribute` (dotted) of it names.

    Raises:
        PluginError: it can't be imported, for whatever reason.
    """
    plugin: Any = call_foreign(importlib.import_module, "can't be imported", module)
    for name in attribute.split(".") if attribute else ():
        if not hasattr(plugin, name):
            raise PluginError(f"can't be imported: {module} has no attribute {attribute!r}")
        plugin = getattr(plugin, name)
    return plugin


def import_module_or_path(reference: str) -> ModuleType:
    """Import a plugin named by `--plugin`: a path to a .py file or to a package folder, or a module on `sys.path`.

    Raises:
        PluginError: there is no such file or module, it can't be imported, or its name belongs to another loaded module.
    """
    is_package = os.path.isfile(os.path.join(reference, "__init__.py"))  # noqa: PTH113, PTH118 - keep start-up light
    if is_package or os.sep in reference or reference.endswith(".py"):
        return _import_path(reference)
    module: ModuleType = import_reference(reference)
    return module


def _import_path(reference: str) -> ModuleType:
    path = os.path.realpath(os.path.expanduser(reference))  # noqa: PTH111
    if os.path.isdir(path):  # noqa: PTH112
        path = os.path.join(path, "__init__.py")  # noqa: PTH118
        name = os.path.basename(os.path.dirname(path))  # noqa: PTH119, PTH120
    else:
        name = os.path.basename(path).removesuffix(".py")  # noqa: PTH119
    if not path.endswith(tuple(SOURCE_SUFFIXES)) or not os.path.isfile(path):  # noqa: PTH113
        raise PluginError("no such file; give a .py file, a package folder or a module name")
    if not name.isidentifier():
        raise PluginError(f"{name!r} is no module name; use letters, digits and underscores")
    loaded = sys.modules.get(name)
    if loaded is not None:
        if os.path.realpath(getattr(loaded, "__file__", None) or "") == path:
            return loaded
        raise PluginError(f"a module called {name!r} is already loaded from elsewhere; rename the file")
    return _load_file(name, path)


def _load_file(name: str, path: str) -> ModuleType:
    from importlib.util import module_from_spec, spec_from_file_location  # noqa: PLC0415 - only with --plugin PATH

    package = [os.path.dirname(path)] if path.endswith("__init__.py") else None  # noqa: PTH120
    spec = spec_from_file_location(name, path, submodule_search_locations=package)
    if spec is None or spec.loader is None:  # can't happen for a .py file; narrows the type
        raise PluginError(f"{path}: not a Python source file")
    module = module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and the package's own submodules look it up there
    try:
        call_foreign(spec.loader.exec_module, "can't be imported", module)
    except PluginError:
        del sys.modules[name]
        raise
    return module


def call_foreign(function: Callable[..., Any], where: str, *args: Any) -> Any:
    """Call a plugin's code.

    This and the episode boundary are the only places that catch every exception: a plugin may raise anything, and neither a listing
    nor a paid run may end because of a stranger's defect.

    Raises:
        PluginError: `where`, then what went wrong; errors of ktdeval's own keep their message.
    """
    try:
        return function(*args)
    except KtdevalError as error:
        raise PluginError(f"{where}: {error}") from error
    except Exception as error:
        raise PluginError(f"{where}: {type(error).__name__}: {one_line(error)}") from error
