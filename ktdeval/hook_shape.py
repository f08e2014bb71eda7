"""What a plugin's hooks must look like: names that exist, marked as hooks, returning lists of `Spec`."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from ktdeval.errors import PluginError
from ktdeval.fields import near_matches
from ktdeval.hookspecs import HOOKS, Spec, hookspec, ktdeval_event

KINDS = tuple(HOOKS)
"""What plugins can offer; the hook of a kind is `ktdeval_<kind>`."""

HOOK_NAMES = (*(f"ktdeval_{kind}" for kind in KINDS), "ktdeval_event")


def hook_namespace() -> types.ModuleType:
    """Return the hooks as pluggy wants them: functions of their names and arguments."""
    namespace = types.ModuleType("ktdeval_hooks")
    namespace.ktdeval_event = hookspec(ktdeval_event)  # type: ignore[attr-defined]
    for kind in KINDS:
        setattr(namespace, f"ktdeval_{kind}", hookspec(lambda: None))
    return namespace


def checked_specs(offered: Any, where: str) -> list[Spec]:
    """Return what a hook gave, a list of `Spec` with a name each.

    Raises:
        PluginError: it is something else, or a name stands twice.
    """
    if not isinstance(offered, (list, tuple)):
        raise PluginError(f"{where} returned {type(offered).__name__}, expected a list of Spec")
    for spec in offered:
        if not isinstance(spec, Spec):
            raise PluginError(f"{where} returned a list with {type(spec).__name__} in it, expected Spec only")
    names = [spec.name for spec in offered]
    for name in names:
        if names.count(name) > 1:
            raise PluginError(f"{where} offers {name!r} twice; rename one of them")
    return list(offered)


def spec_of_metric(offered: Any) -> Any:
    """Return the spec of a metric that a hook offers as it is; anything else stays what it is."""
    if isinstance(offered, Spec) or not hasattr(offered, "compute") or not hasattr(offered, "name"):
        return offered
    return Spec(offered.name, lambda: offered, str(getattr(offered, "summary", "") or getattr(offered, "formula", "")))


def _hook_functions(plugin: object) -> dict[str, Callable[..., Any]]:
    """Functions of a plugin whose names claim to be hooks."""
    candidates = {name: getattr(plugin, name) for name in dir(plugin) if name.startswith("ktdeval_")}
    return {name: value for name, value in candidates.items() if isinstance(value, (types.FunctionType, types.MethodType))}


def hooks_of(plugin: object) -> tuple[str, ...]:
    """Return the hooks that a plugin implements, sorted."""
    return tuple(sorted(_hook_functions(plugin)))


def check_hook_names(plugin: object, name: str) -> None:
    """Refuse a function that is named like a hook and is none.

    Raises:
        PluginError: names the plugin and the function.
    """
    for hook, function in _hook_functions(plugin).items():
        if hook not in HOOK_NAMES:
            raise PluginError(
                f"plugin {name}: there is no hook {hook!r}{near_matches(hook, HOOK_NAMES) or f'; hooks are {HOOK_NAMES}'}"
            )
        options = getattr(function, "ktdeval_impl", None)
        if options is None:
            raise PluginError(f"plugin {name}: {hook} is not marked as a hook; put @hookimpl (from ktdeval.api) above it")
        if options["wrapper"] or options["hookwrapper"]:
            raise PluginError(f"plugin {name}: {hook} is a hook wrapper; ktdeval's hooks return lists and take no wrappers")
