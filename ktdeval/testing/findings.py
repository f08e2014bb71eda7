"""Findings from the check of a plugin, each with the problem, the component, the line and a fix."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from ktdeval.errors import KtdevalError
from ktdeval.hookspecs import Spec
from ktdeval.registry.plugin_boundary import one_line
from ktdeval.registry.plugin_error_location import CodePlace, place_of
from ktdeval.values.findings import Finding

_OURS = Path(__file__).parents[1]
_IN_A_FILE = re.compile(r"(/\S+\.ya?ml): (?:variants: )?([\w./-]+)")  # file, and name in the file
_GENERAL_FIX = {
    True: "correct that line",  # an exception in the author's code
    False: "docs/plugins.md shows code for each hook",  # a broken rule of ktdeval
}


class ConformanceError(AssertionError):
    """A plugin breaks the contract."""


@dataclass
class PluginReport:
    """Result of the check of one plugin.

    Example:
        # misspelled.py has `@hookimpl` on line 3, above a function `ktdeval_model`
        found = check_parts("misspelled.py").findings[0]
        (found.line, found.message)  # (3, "plugin misspelled: there is no hook 'ktdeval_model'")
    """

    plugin: str
    findings: list[Finding] = field(default_factory=list)
    checked: list[str] = field(default_factory=list)  #: components that were called
    #: component -> why it was not called, or not completely
    notes: dict[str, str] = field(default_factory=dict)


class NotCalled(Exception):
    """A component can't be called here, which is not a fault."""


def source_of(*candidates: Any) -> CodePlace:
    """Return the source location of the first candidate that an author wrote. A candidate is a
    function, a class, a module, or an instance, which is located by its class.
    """
    for candidate in candidates:
        source = _source(candidate)
        if source.path and not Path(source.path).is_relative_to(_OURS):
            return source

    return CodePlace()


def _source(candidate: Any) -> CodePlace:
    written = inspect.unwrap(candidate) if callable(candidate) else candidate
    if isinstance(written, partial):
        written = written.func
    if isinstance(written, ModuleType):
        return CodePlace(getattr(written, "__file__", None) or "", 1)
    if not inspect.isfunction(written) and not inspect.isclass(written):
        written = type(written)
    if written.__module__.partition(".")[0] in sys.stdlib_module_names:
        return CodePlace()

    try:
        return CodePlace(inspect.getsourcefile(written) or "", inspect.getsourcelines(written)[1])
    except (OSError, TypeError):  # a built-in, or typed at a prompt
        return CodePlace()


def source_of_spec(spec: Spec, hook: Callable[..., Any] | None, made: Any = None) -> CodePlace:
    """Return the source location of a component: its variant in a task file, the object that was
    made, the function that makes it, or the hook that offers it.
    """
    path, _, _ = str(spec.extra.get("where", "")).partition(": ")
    if path.endswith((".yaml", ".yml")) and Path(path).is_file():
        return CodePlace(path, _line_of_key(Path(path), spec.name))

    return source_of(*(part for part in (made, spec.make, hook) if part is not None))


def _line_of_key(path: Path, key: str) -> int:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if line.strip().startswith(f"{key}:"):
            return number

    return 1


def finding_of(plugin: str, part: str, error: BaseException, source: CodePlace) -> Finding:
    """Return a finding for an exception, located at the line of the author's code that raised it
    or, failing that, at `source`.
    """
    cause = error
    while isinstance(cause, KtdevalError | ConformanceError) and cause.__cause__ is not None:
        cause = cause.__cause__

    in_file = _IN_A_FILE.search(str(error))
    if in_file is not None and Path(in_file[1]).is_file():
        source = CodePlace(in_file[1], _line_of_key(Path(in_file[1]), in_file[2]))

    place = place_of(cause)
    if place is not None and not Path(place.path).is_relative_to(_OURS):
        source = place

    reason = one_line(error).removeprefix(f"{part} of plugin {plugin}: ")
    if place is not None:
        reason = reason.removesuffix(f" ({place})")
    if isinstance(error, KtdevalError | ConformanceError):
        reason, fix = _split_advice(reason)
    else:
        reason = f"{type(error).__name__}: {reason}"
        fix = ""

    return Finding(
        path=source.path,
        line=source.line,
        part=part,
        rule="raises" if place is not None else "contract",
        message=reason,
        fix=fix or _GENERAL_FIX[place is not None],
    )


def _split_advice(message: str) -> tuple[str, str]:
    """Split a message into the reason and the advice, which follows the last semicolon."""
    reason, semicolon, advice = message.rpartition("; ")
    if not semicolon:
        return message, ""
    return reason, advice
