"""Boundary to third-party code. Exceptions raised by such code become a `PluginError` that names
the code, and its hooks and objects are checked.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from importlib.machinery import SOURCE_SUFFIXES
from inspect import signature
from operator import attrgetter
from types import FunctionType, MethodType, ModuleType
from typing import Any, cast

import pluggy

from ktdeval.errors import KtdevalError, PluginError
from ktdeval.hookspecs import HOOKS, Spec, hookspec, ktdeval_event
from ktdeval.registry.contracts import PluginContract, contract_of, fault_of, traits_problem
from ktdeval.registry.plugin_error_location import place_of
from ktdeval.values.misfit import near_matches
from ktdeval.values.options.rules import Rule, has_text, mismatch as mismatch


def one_line(error: BaseException) -> str:
    """Return an exception's message without line breaks."""
    return " ".join(str(error).split()) or "no message"


def describe_error(error: BaseException) -> str:
    """Return the type, message and location of an exception from an author's code, such as
    `KeyError: 'x' (m.py:3)`.
    """
    message = one_line(error)
    if isinstance(error, SyntaxError):  # str(error) repeats the file and line
        message = error.msg
    elif isinstance(error, ImportError):
        message = _with_near_names(message)

    text = f"{type(error).__name__}: {message}"
    place = place_of(error)
    if place is None:
        return text
    return f"{text} ({place})"


def _with_near_names(message: str) -> str:
    """If a message says that a ktdeval package lacks an imported name, replace the package's path
    by similar names.
    """
    wanted = re.match(r"cannot import name '(\w+)' from '(ktdeval[\w.]*)'", message)
    if wanted is None:
        return message
    return wanted[0] + near_matches(wanted[1], dir(sys.modules[wanted[2]]))


def is_other_package(error: ImportError, plugin: str) -> bool:
    """Return whether an import failed because a package is missing that the user can install.

    This is the case if the package is neither the plugin's own nor ktdeval. Any other failure is a
    mistake in the author's code.
    """
    if not isinstance(error, ModuleNotFoundError):
        return False

    place = place_of(error)
    own = {"ktdeval", plugin.partition(":")[0].partition(".")[0]}
    if place is not None:
        own.add(place.shown.partition("/")[0].removesuffix(".py"))

    return (error.name or "").partition(".")[0] not in own


def import_reference(module: str, attribute: str = "") -> Any:
    """Import `module`, and return it or its (dotted) `attribute`. Raises PluginError if the import
    fails for any reason.
    """
    plugin: Any = call_foreign(importlib.import_module, "can't be imported", module)
    return call_foreign(attrgetter(attribute), "can't be imported", plugin) if attribute else plugin


def import_module_or_path(reference: str) -> ModuleType:
    """Import a plugin given by `--plugin`: a path to a .py file or package folder, or a module on
    `sys.path`.

    Raises PluginError if the file or module is missing or can't be imported, or if another loaded
    module already has its name.
    """
    # For a self-referencing link or an overlong name, os.path returns False, whereas Path raises.
    is_package = os.path.isfile(os.path.join(reference, "__init__.py"))  # noqa: PTH113, PTH118
    if not (
        is_package or os.sep in reference or reference.startswith(".") or reference.endswith(".py")
    ):
        return cast("ModuleType", import_reference(reference))

    path = os.path.realpath(os.path.expanduser(reference))  # noqa: PTH111
    name = os.path.basename(path).removesuffix(".py")  # noqa: PTH119
    if os.path.isdir(path):  # noqa: PTH112
        name, path = os.path.basename(path), os.path.join(path, "__init__.py")  # noqa: PTH118, PTH119

    if not path.endswith(tuple(SOURCE_SUFFIXES)) or not os.path.isfile(path):  # noqa: PTH113
        raise PluginError(
            f"{path}: no such file; give a .py file, a package folder or a module name"
        )
    if not name.isidentifier():
        raise PluginError(f"{name!r} is not a module name; use letters, digits and underscores")

    loaded = sys.modules.get(name)
    if loaded is None:
        return _load_file(name, path)
    if os.path.realpath(getattr(loaded, "__file__", None) or "") != path:
        raise PluginError(
            f"a module called {name!r} is already loaded from elsewhere; rename the file"
        )

    return loaded


def _load_file(name: str, path: str) -> ModuleType:
    from importlib.util import (  # noqa: PLC0415 - only with --plugin PATH
        module_from_spec,
        spec_from_file_location,
    )

    package = [os.path.dirname(path)] if path.endswith("__init__.py") else None  # noqa: PTH120
    spec = spec_from_file_location(name, path, submodule_search_locations=package)
    if spec is None or spec.loader is None:  # impossible for a .py file, but narrows the type
        raise PluginError(f"{path}: not a Python source file")

    module = module_from_spec(spec)
    # dataclasses and the package's own submodules look the module up there
    sys.modules[name] = module
    try:
        call_foreign(spec.loader.exec_module, "can't be imported", module)
    except PluginError:
        del sys.modules[name]
        raise

    return module


def call_foreign(function: Callable[..., Any], where: str, *args: Any) -> Any:
    """Call a plugin's code.

    Any exception becomes a PluginError. Its message consists of `where` and the error with file and
    line in the author's code; errors raised by ktdeval itself keep their message. Only this
    function and the episode boundary catch every exception: a plugin may raise anything, and its
    bugs must end neither a listing nor a paid run.
    """
    try:
        return function(*args)
    except KtdevalError as error:
        raise PluginError(f"{where}: {error}") from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # otherwise, a plugin could silently exit the process
        raise PluginError(f"{where}: {describe_error(error)}") from error


def raised_by(function: Callable[..., Any], *args: Any) -> BaseException | None:
    """Call a plugin's code, and return the exception that it raises, or None. Interrupts are passed
    on.
    """
    try:
        function(*args)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - see `call_foreign`
        return error

    return None


def call_through(function: Callable[..., Any], where: str, *args: Any) -> Any:
    """Call a plugin's code like `call_foreign`, but pass on ktdeval's own errors unchanged, since
    they say what to fix.
    """
    try:
        return call_foreign(function, where, *args)
    except PluginError as error:
        if isinstance(error.__cause__, KtdevalError):
            raise error.__cause__ from None
        raise


# ---- hooks

PIN = "content"  #: argument in which a run records the hash of a component's sources
#: argument that is recorded even for an agent without arguments, to which it is not passed
PINNED = ("agents", PIN)
#: kinds of things that plugins can offer; the hook for a kind is `ktdeval_<kind>`
KINDS = tuple(HOOKS)

HOOK_NAMES = (*(f"ktdeval_{kind}" for kind in KINDS), "ktdeval_event")


class HookManager(pluggy.PluginManager):
    """Hook manager that only considers a module's functions as hooks, whereas pluggy tests every
    name in a module.
    """

    def __init__(self) -> None:
        super().__init__("ktdeval")
        # pluggy expects hooks to be functions with their names and arguments
        namespace = ModuleType("ktdeval_hooks")
        namespace.ktdeval_event = hookspec(ktdeval_event)  # type: ignore[attr-defined]

        for kind in KINDS:
            setattr(namespace, f"ktdeval_{kind}", hookspec(lambda: None))

        self.add_hookspecs(namespace)

    def parse_hookimpl_opts(self, plugin: Any, name: str) -> Any:
        """Return the options of a hook implementation; None for any other object."""
        if isinstance(plugin, ModuleType) and not isinstance(vars(plugin).get(name), FunctionType):
            return None
        return super().parse_hookimpl_opts(plugin, name)


def hooks_of(plugin: object) -> tuple[str, ...]:
    """Return the names of a plugin's functions that look like hooks, sorted."""
    named = (name for name in dir(plugin) if name.startswith("ktdeval_"))
    return tuple(
        sorted(
            name for name in named if isinstance(getattr(plugin, name), (FunctionType, MethodType))
        )
    )


def check_hook_names(plugin: object, name: str) -> None:
    """Raise PluginError if a function is named like a hook but is not a valid one. The message
    names the plugin and the function.
    """
    for hook in hooks_of(plugin):
        if hook not in HOOK_NAMES:
            raise PluginError(
                f"plugin {name}: there is no hook"
                f" {hook!r}{near_matches(hook, HOOK_NAMES) or f'; hooks are {HOOK_NAMES}'}"
            )

        options = getattr(getattr(plugin, hook), "ktdeval_impl", None)
        if options is None:
            raise PluginError(
                f"plugin {name}: {hook} is not marked as a hook; put @hookimpl (from ktdeval.api)"
                " above it"
            )
        if options["wrapper"] or options["hookwrapper"]:
            raise PluginError(
                f"plugin {name}: {hook} is a hook wrapper; ktdeval's hooks return lists and take no"
                " wrappers"
            )


def offered_specs(kind: str, offered: Any, where: str) -> list[Spec]:
    """Return the `Spec`s in the list returned by a hook, with metrics converted to Specs. Raises
    PluginError if the hook returned anything else, or if a Spec is invalid.
    """
    if not isinstance(offered, (list, tuple)):
        raise PluginError(f"{where} returned {type(offered).__name__}, expected a list of Spec")

    specs = [_spec_of_metric(item) if kind == "metrics" else item for item in offered]
    names: set[str] = set()
    for spec in specs:
        if not isinstance(spec, Spec):
            advice = (
                "; give its .spec()"
                if hasattr(spec, "spec")
                else "; put @metric(…) above it"
                if kind == "metrics"
                else ""
            )
            raise PluginError(
                f"{where} returned a list with {type(spec).__name__} in it, expected Spec"
                f" only{advice}"
            )

        for part, rule in _PARTS_OF_SPEC.items():
            value = getattr(spec, part)
            if not rule.holds(value):
                raise PluginError(
                    f"{where}: {part} of Spec {spec.name!r} must be {rule.words}, was {value!r:.80}"
                )

        if spec.name in names:
            raise PluginError(f"{where} offers {spec.name!r} twice; rename one of them")

        names.add(spec.name)

    return specs


def _spec_of_metric(offered: Any) -> Any:
    if isinstance(offered, Spec) or not hasattr(offered, "compute") or not hasattr(offered, "name"):
        return offered
    return Spec(
        offered.name,
        lambda: offered,
        str(getattr(offered, "summary", "") or getattr(offered, "formula", "")),
    )


_PARTS_OF_SPEC = {
    "name": Rule("text that is not empty", has_text),
    "make": Rule("a function", callable),
    "summary": Rule("text", lambda value: isinstance(value, str)),
    "params": Rule("a dataclass or None", lambda value: value is None or _is_dataclass(value)),
    "groups": Rule("a tuple or list", lambda value: isinstance(value, tuple | list)),
    "extra": Rule("a mapping", lambda value: isinstance(value, Mapping)),
}


def _is_dataclass(value: object) -> bool:
    return isinstance(value, type) and is_dataclass(value)


# ---- objects that plugins make

_ABSENT = object()


def is_file_name(name: str) -> bool:
    """Return whether a task or metric name is permitted. It must be usable as a file or folder name
    on any system.
    """
    return re.fullmatch(r"(?!\.)[A-Za-z0-9_.-]{1,120}", name) is not None


def check_made(kind: str, name: str, instance: Any, where: str) -> None:
    """Check an object that a plugin made. Most objects are used only later, so this finds faults
    before anything is paid for.

    Raises PluginError if an attribute or method is missing or of the wrong type, if the object's
    own name differs from `name`, if the name of a task or metric can't be a file name, or if the
    traits of a task, model or agent are invalid. The message starts with `where` (kind, name and
    plugin).
    """
    kind = kind_of_made(kind, instance)
    _check_members(contract_of(kind), instance, where)
    problem = call_foreign(traits_problem, f"{where}: traits", kind, instance)
    if problem:
        raise PluginError(f"{where}: {problem}")

    own = type(instance).__name__
    if (
        kind in ("tasks", "scoring tasks", "tools", "metrics", "cards", "tables", "venues")
        and instance.name != name
    ):
        raise PluginError(
            f"{where}: {own} is called {instance.name!r}; give it the name of its Spec"
        )
    if kind in ("tasks", "scoring tasks", "metrics") and not is_file_name(name):
        raise PluginError(
            f"{where}: the name can't be a file name; use up to 120 of A-Z, a-z, 0-9, `_`, `-`,"
            " and `.` but at the start"
        )


def kind_of_made(kind: str, instance: Any) -> str:
    """Return the kind in `CONTRACTS` that applies to an object made for a `kind` of name."""
    if kind == "tasks" and hasattr(instance, "samples"):
        return "scoring tasks"
    if kind == "models" and hasattr(instance, "connect"):
        return "models behind a network"
    return kind


def _check_members(contract: PluginContract, instance: Any, where: str) -> None:
    own = type(instance).__name__
    see = f"(see {contract.name})"
    if contract.python is not None and not isinstance(instance, contract.python):
        raise PluginError(f"{where}: expected a {contract.name}, was {own}")

    values = {
        name: call_foreign(getattr, f"{where}: {name} of {own}", instance, name, _ABSENT)
        for name in contract.members
    }
    missing = [name for name, value in values.items() if value is _ABSENT]
    if missing:
        raise PluginError(f"{where}: {own} has no {', no '.join(missing)} {see}")

    for name, kind in contract.members.items():
        fault = fault_of(kind, values[name], name)
        if fault is not None:
            raise PluginError(
                f"{where}: {fault.path} of {own} must be {fault.expected}, was"
                f" {_shown_value(fault.value)} {see}"
            )


def _shown_value(value: Any) -> str:
    if isinstance(value, str | tuple):
        return f"{value!r:.60}"
    if isinstance(value, FunctionType | MethodType):
        return f"one of {signature(value)}"

    return type(value).__name__
