"""Boundary to foreign code: all that it raises becomes a `PluginError` that names it; its hooks and objects are checked."""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from functools import cache
from importlib.machinery import SOURCE_SUFFIXES
from inspect import signature
from operator import attrgetter
from pathlib import Path
from types import FunctionType, MethodType, ModuleType
from typing import Any, cast

import pluggy

from ktdeval.errors import KtdevalError, PluginError
from ktdeval.fields import RANGE, is_range, near_matches
from ktdeval.hookspecs import HOOKS, Spec, hookspec, ktdeval_event


def one_line(error: BaseException) -> str:
    """Return an exception's text without line breaks."""
    return " ".join(str(error).split()) or "no message"


def import_reference(module: str, attribute: str = "") -> Any:
    """Import `module`, or its `attribute` (dotted); PluginError if it can't be imported, for whatever reason."""
    plugin: Any = call_foreign(importlib.import_module, "can't be imported", module)
    return call_foreign(attrgetter(attribute), "can't be imported", plugin) if attribute else plugin


def import_module_or_path(reference: str) -> ModuleType:
    """Import a plugin named by `--plugin`: a path to a .py file or to a package folder, or a module on `sys.path`. Raises
    PluginError: there is no such file or module, it can't be imported, or its name belongs to another loaded module.
    """
    # os.path says False of a link to itself and of too long a name, where Path raises.
    is_package = os.path.isfile(os.path.join(reference, "__init__.py"))  # noqa: PTH113, PTH118
    if not (is_package or os.sep in reference or reference.startswith(".") or reference.endswith(".py")):
        return cast("ModuleType", import_reference(reference))
    path = os.path.realpath(os.path.expanduser(reference))  # noqa: PTH111
    name = os.path.basename(path).removesuffix(".py")  # noqa: PTH119
    if os.path.isdir(path):  # noqa: PTH112
        name, path = os.path.basename(path), os.path.join(path, "__init__.py")  # noqa: PTH118, PTH119
    if not path.endswith(tuple(SOURCE_SUFFIXES)) or not os.path.isfile(path):  # noqa: PTH113
        raise PluginError(f"{path}: no such file; give a .py file, a package folder or a module name")
    if not name.isidentifier():
        raise PluginError(f"{name!r} is no module name; use letters, digits and underscores")
    loaded = sys.modules.get(name)
    if loaded is None:
        return _load_file(name, path)
    if os.path.realpath(getattr(loaded, "__file__", None) or "") != path:
        raise PluginError(f"a module called {name!r} is already loaded from elsewhere; rename the file")
    return loaded


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
    """Call a plugin's code; PluginError says `where`, then what went wrong (errors of ktdeval's own keep their message). This and
    the episode boundary are the only places that catch every exception: a plugin may raise anything, and its defects must end
    neither a listing nor a paid run.
    """
    try:
        return function(*args)
    except KtdevalError as error:
        raise PluginError(f"{where}: {error}") from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a plugin that ends the process would end it without a word
        raise PluginError(f"{where}: {type(error).__name__}: {one_line(error)}") from error


def call_through(function: Callable[..., Any], where: str, *args: Any) -> Any:
    """Call a plugin's code whose errors of ktdeval's own, which say what to fix, are raised as they are; else as `call_foreign`."""
    try:
        return call_foreign(function, where, *args)
    except PluginError as error:
        if isinstance(error.__cause__, KtdevalError):
            raise error.__cause__ from None
        raise


# ---- hooks

KINDS = tuple(HOOKS)  #: What plugins can offer; the hook of a kind is `ktdeval_<kind>`

HOOK_NAMES = (*(f"ktdeval_{kind}" for kind in KINDS), "ktdeval_event")


class HookManager(pluggy.PluginManager):
    """Manager of the hooks, which looks for them among a module's functions only: pluggy tests every name of a module."""

    def __init__(self) -> None:
        super().__init__("ktdeval")
        namespace = ModuleType("ktdeval_hooks")  # hooks as pluggy wants them: functions of their names and arguments
        namespace.ktdeval_event = hookspec(ktdeval_event)  # type: ignore[attr-defined]
        for kind in KINDS:
            setattr(namespace, f"ktdeval_{kind}", hookspec(lambda: None))
        self.add_hookspecs(namespace)

    def parse_hookimpl_opts(self, plugin: Any, name: str) -> Any:
        """Return the options of a hook's implementation; None for any other object."""
        if isinstance(plugin, ModuleType) and not isinstance(vars(plugin).get(name), FunctionType):
            return None
        return super().parse_hookimpl_opts(plugin, name)


def hooks_of(plugin: object) -> tuple[str, ...]:
    """Return the functions of a plugin that are named like hooks, sorted."""
    named = (name for name in dir(plugin) if name.startswith("ktdeval_"))
    return tuple(sorted(name for name in named if isinstance(getattr(plugin, name), (FunctionType, MethodType))))


def check_hook_names(plugin: object, name: str) -> None:
    """Raise a PluginError that names plugin and function for a function that is named like a hook and is none."""
    for hook in hooks_of(plugin):
        if hook not in HOOK_NAMES:
            raise PluginError(
                f"plugin {name}: there is no hook {hook!r}{near_matches(hook, HOOK_NAMES) or f'; hooks are {HOOK_NAMES}'}"
            )
        options = getattr(getattr(plugin, hook), "ktdeval_impl", None)
        if options is None:
            raise PluginError(f"plugin {name}: {hook} is not marked as a hook; put @hookimpl (from ktdeval.api) above it")
        if options["wrapper"] or options["hookwrapper"]:
            raise PluginError(f"plugin {name}: {hook} is a hook wrapper; ktdeval's hooks return lists and take no wrappers")


def offered_specs(kind: str, offered: Any, where: str) -> list[Spec]:
    """Return the list of named `Spec`s that a hook gave (metrics as Specs, too); PluginError if it gave something else."""
    if not isinstance(offered, (list, tuple)):
        raise PluginError(f"{where} returned {type(offered).__name__}, expected a list of Spec")
    specs = [_spec_of_metric(item) if kind == "metrics" else item for item in offered]
    names: set[str] = set()
    for spec in specs:
        if not isinstance(spec, Spec):
            advice = "; give its .spec()" if hasattr(spec, "spec") else "; put @metric(…) above it" if kind == "metrics" else ""
            raise PluginError(f"{where} returned a list with {type(spec).__name__} in it, expected Spec only{advice}")
        for part, expected in _PARTS_OF_SPEC.items():
            if not _IS[expected](value := getattr(spec, part)):
                raise PluginError(f"{where}: {part} of Spec {spec.name!r} must be {expected}, was {value!r:.80}")
        if spec.name in names:
            raise PluginError(f"{where} offers {spec.name!r} twice; rename one of them")
        names.add(spec.name)
    return specs


def _spec_of_metric(offered: Any) -> Any:
    if isinstance(offered, Spec) or not hasattr(offered, "compute") or not hasattr(offered, "name"):
        return offered
    return Spec(offered.name, lambda: offered, str(getattr(offered, "summary", "") or getattr(offered, "formula", "")))


# ---- objects that plugins make

_ABSENT = object()
_IS: Mapping[str, Callable[[Any], bool]] = {
    "text": lambda value: isinstance(value, str),
    "text that is not empty": lambda value: isinstance(value, str) and value.strip() != "",
    "text or None": lambda value: isinstance(value, str | None),
    "a tuple": lambda value: isinstance(value, tuple),
    "a tuple or list": lambda value: isinstance(value, tuple | list),
    "a mapping": lambda value: isinstance(value, Mapping),
    "a mapping of Window": lambda value: isinstance(value, Mapping) and all(hasattr(each, "first") for each in value.values()),
    "a HarnessConfig": lambda value: hasattr(value, "max_tool_calls"),
    RANGE: is_range,
    "a dataclass or None": lambda value: value is None or (isinstance(value, type) and is_dataclass(value)),
    "a method": callable,
    "a function": callable,
    "": lambda _: True,
}


def _is(value: Any, expected: str) -> bool:
    words = expected.removeprefix("one of ")
    if expected.startswith(method_of := "a method of "):
        return callable(value) and not mismatch(value, expected.removeprefix(method_of).split(", "))
    if expected.startswith("a mapping of ScoreDefinition"):
        return isinstance(value, Mapping) and all(map(_is_definition, value.values()))
    return _IS[expected](value) if words == expected else str(value) in words.split(", ")


def mismatch(function: Callable[..., Any], arguments: Sequence[object]) -> str:
    """Return why a function can't be called with so many arguments, by position; empty if it can, or does not say what it takes."""
    try:
        signature(function).bind(*arguments)
    except (TypeError, ValueError) as error:
        return str(error) if isinstance(error, TypeError) else ""
    return ""


def _is_definition(value: Any) -> bool:
    texts = [getattr(value, part, "") for part in ("formula", "unit", "source")]
    is_described = all(isinstance(text, str) and text for text in texts) and isinstance(getattr(value, "headline", None), bool)
    return is_described and getattr(value, "better", None) in ("higher", "lower", "") and is_range(getattr(value, "range", None))


_PARTS_OF_SPEC = {
    "name": "text that is not empty", "make": "a function", "summary": "text", "params": "a dataclass or None",
    "groups": "a tuple or list", "extra": "a mapping",
}  # fmt: skip


@cache
def _parts() -> Mapping[str, tuple[str, Mapping[str, str]]]:
    """Return the members that an object of a plugin must have, by kind, with the class of `ktdeval.api` that describes it."""
    parts: dict[str, tuple[str, Mapping[str, str]]] = json.loads(Path(__file__).with_name("parts.json").read_text(encoding="utf-8"))
    return parts


def is_file_name(name: str) -> bool:
    """Whether a task or metric may have a name: its cards lie in files and folders of that name, on any system."""
    return re.fullmatch(r"(?!\.)[A-Za-z0-9_.-]{1,120}", name) is not None


def check_made(kind: str, name: str, instance: Any, where: str) -> None:
    """Check an object that a plugin made for a name of a kind before anything is paid for, since most are used only later. Raises
    PluginError, which `where` (kind, name and plugin) starts: an attribute or method is missing or of another type, or a
    task, tool, metric or card kind has another name, or a task or metric one that no file can have.
    """
    if kind == "tasks" and hasattr(instance, "samples"):
        kind = "scoring tasks"
    elif kind == "models" and hasattr(instance, "connect"):
        kind = "models behind a network"
    class_name, parts = _parts()[kind]
    own, see = type(instance).__name__, f"(see ktdeval.api.{class_name})" if "." not in class_name else f"(expected a {class_name})"
    values = {part: call_foreign(getattr, f"{where}: {part} of {own}", instance, part, _ABSENT) for part in parts}
    if missing := [part for part, value in values.items() if value is _ABSENT]:
        raise PluginError(f"{where}: {own} has no {', no '.join(missing)} {see}")
    for part, expected in parts.items():
        if not _is(value := values[part], expected):
            shown = f"{value!r:.60}" if isinstance(value, str | tuple) else type(value).__name__
            if callable(value) and expected.startswith("a method of "):
                shown = f"one of {signature(value)}"
            raise PluginError(f"{where}: {part} of {own} must be {expected}, was {shown} {see}")
    if kind in ("tasks", "scoring tasks", "tools", "metrics", "cards", "venues") and instance.name != name:
        raise PluginError(f"{where}: {own} is called {instance.name!r}; give it the name of its Spec")
    if kind in ("tasks", "scoring tasks", "metrics") and not is_file_name(name):
        raise PluginError(
            f"{where}: the name can't be a file's; use up to 120 of A-Z, a-z, 0-9, `_`, `-`, and `.` but at the start"
        )
