"""Check of a whole plugin: hooks, names and summaries, how quickly it can be listed, and each
component, which is made and called.
"""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ktdeval.errors import ConfigError, KtdevalError, PluginError, ProviderError, UsageError
from ktdeval.hookspecs import Spec
from ktdeval.registry.plugin_boundary import hooks_of, raised_by
from ktdeval.registry.plugin_error_location import CodePlace
from ktdeval.registry.plugin_registry import KINDS, Plugins, load_plugins
from ktdeval.testing.findings import (
    ConformanceError,
    NotCalled,
    PluginReport,
    finding_of,
    source_of,
    source_of_spec,
)
from ktdeval.testing.part_checks import (
    CALLS,
    advice_of,
    call_observer,
    check_made_without_arguments,
)
from ktdeval.testing.trial_episode import PluginTrial

HEAVY = ("pandas", "scipy", "statsmodels", "datasets", "numpy", "pyarrow", "jsonschema", "rich")
"""Packages that a manifest must not import, because listing names has to be quick."""

ONE_OF = {kind: kind.removesuffix("s") for kind in KINDS} | {"data": "data", "cards": "card kind"}
_NAME = re.compile(r"[a-z0-9][a-z0-9_.\-]*(/[A-Za-z0-9_.\-]+)*")
_MANIFEST = "manifest"
# components that may need parameters, files or keys from users
_MAY_REFUSE = ("model", "agent", "data")


def check_plugin(module: str) -> Plugins:
    """Check what a plugin offers.

    The check covers hooks, names, summaries and documented parameters, that listing the plugin
    imports no heavy packages, and each component, which is made and called with small inputs.
    `module` is the module of the manifest, as in an entry point. The plugin need not be installed.
    It is loaded together with all installed plugins, so that conflicting names are found.

    Returns the registry that contains the plugin, for checking its components with your own inputs.
    Raises ConformanceError with one fault per line.

    Example:
        check_plugin("my_plugin").make_model("mine/parrot")
    """
    report = check_parts(module)
    if report.findings:
        lines = [f"{finding}; {finding.fix}" for finding in report.findings]
        raise ConformanceError("\n".join(lines))

    return load_plugins([module])


def check_parts(reference: str, lists: bool | None = None) -> PluginReport:
    """Check a plugin as `check_plugin` does, and return everything that was found.

    `reference`: a module, a .py file, or a package folder. `lists`: whether to check, in a new
    process, that listing the plugin imports no heavy packages. By default, this is checked unless
    the plugin is a single file, because such plugins are only loaded on request.

    Example:
        check_parts("mine.py").findings  # []
    """
    if lists is None:
        lists = not reference.endswith(".py")

    report = PluginReport(reference)
    try:
        plugins = load_plugins([reference])
    except KtdevalError as error:
        source = _source_in_manifest(reference, str(error))
        report.findings.append(finding_of(reference, _MANIFEST, error, source))
        return report

    module = _module_of(plugins, reference)
    report.plugin = module
    _PluginCheck(plugins, module, report, lists).run()

    return report


def _module_of(plugins: Plugins, reference: str) -> str:
    """Return the name under which a plugin is registered, which is the name of its module."""
    if reference in plugins.info or reference in plugins.broken:
        return reference
    return next(reversed(plugins.info))


def _source_in_manifest(reference: str, message: str) -> CodePlace:
    """Return the source location of the hook that a message names. If it names no hook, return the
    first line of the manifest.
    """
    module = sys.modules.get(Path(reference).name.removesuffix(".py"))
    if module is None:
        return CodePlace(reference, 1) if reference.endswith(".py") else CodePlace()

    named = [getattr(module, hook) for hook in hooks_of(module) if hook in message]
    return source_of(*named, module)


class _PluginCheck:
    """Check of one loaded plugin."""

    def __init__(self, plugins: Plugins, module: str, report: PluginReport, lists: bool) -> None:
        self._plugins = plugins
        self._lists = lists
        self._module = module
        self._report = report
        self._trial = PluginTrial(plugins)
        self._manifest: Any = sys.modules.get(module.partition(":")[0])

    def run(self) -> None:
        """Run all checks and add the faults to the report."""
        broken = self._plugins.broken.get(self._module)
        if broken is not None:
            self._add(_MANIFEST, ConformanceError(broken), source_of(self._manifest))
            return

        number = 0
        for kind in KINDS:
            for spec in self._list_offers(kind):
                number += 1
                self._check(kind, spec)

        observe = getattr(self._manifest, "ktdeval_event", None)
        if observe is not None:
            self._try("ktdeval_event", source_of(observe), self._observe, observe)
        if number == 0 and observe is None and not self._report.findings:
            text = "offers nothing; return Specs from a hook such as ktdeval_tasks"
            self._add(_MANIFEST, ConformanceError(text), source_of(self._manifest))

        if self._lists:
            self._try(_MANIFEST, source_of(self._manifest), check_light, self._module)

    def _list_offers(self, kind: str) -> Iterator[Spec]:
        """Yield the Specs of one kind that the plugin offers. A hook that fails is reported as a
        finding.
        """
        hook = self._hook(kind)
        try:
            specs = self._plugins.specs(kind)
        except PluginError as error:
            if hook is not None:
                self._add(f"ktdeval_{kind}", error, source_of(hook, self._manifest))
            return

        for spec in specs.values():
            if self._plugins.owner(kind, spec.name) == self._module:
                yield spec

    def _hook(self, kind: str) -> Callable[..., Any] | None:
        return getattr(self._manifest, f"ktdeval_{kind}", None)

    def _check(self, kind: str, spec: Spec) -> None:
        part = f"{ONE_OF[kind]} {spec.name}"
        source = source_of_spec(spec, self._hook(kind))
        before = len(self._report.findings)
        self._try(part, source, check_spec, kind, spec)
        if len(self._report.findings) == before:
            self._try(part, source, self._call, kind, spec)
        if len(self._report.findings) == before:
            self._report.checked.append(part)

    def _call(self, kind: str, spec: Spec) -> None:
        check_made_without_arguments(spec)
        CALLS[kind](self._trial, spec)

    def _observe(self, observe: Callable[..., Any]) -> None:
        arguments = observe.__code__.co_varnames[: observe.__code__.co_argcount]
        call_observer(self._trial, observe, arguments)

    def _try(self, part: str, source: CodePlace, check: Callable[..., None], *args: Any) -> None:
        """Run a check. Since the check calls foreign code, any exception is reported as a
        finding.
        """
        error = raised_by(check, *args)
        if error is None:
            return
        if isinstance(error, NotCalled):
            self._report.notes[part] = str(error)
            return

        may_refuse = part.partition(" ")[0] in _MAY_REFUSE
        if may_refuse and isinstance(error, UsageError | ConfigError | ProviderError):
            self._report.notes[part] = f"can't be made without parameters: {error}"
            return

        self._add(part, error, source)

    def _add(self, part: str, error: BaseException, source: CodePlace) -> None:
        finding = finding_of(self._module, part, error, source)
        advice = advice_of(error)
        if advice:
            finding = dataclasses.replace(finding, fix=advice)

        self._report.findings.append(finding)


def check_spec(kind: str, spec: Spec) -> None:
    """Check the name, summary and parameters of a Spec. Raises ConformanceError."""
    words = [spec.name]
    if kind == "commands":  # a command with two words is in a group that plugins share
        words = spec.name.split(" ", 1)

    if not all(map(_NAME.fullmatch, words)):
        raise ConformanceError(
            f"the name is {spec.name!r}; use lower case letters, digits, _ . - and, for models,"
            " slashes"
        )
    if not spec.summary.strip() or "\n" in spec.summary:
        raise ConformanceError(
            f"the summary is {spec.summary!r:.60}; write one line that is not empty"
        )
    if spec.params is None:
        return

    for field in dataclasses.fields(spec.params):
        if not field.metadata.get("help"):
            raise ConformanceError(
                f"parameter {field.name} has no help; declare it with ktdeval.api.option"
            )


def check_light(module: str) -> None:
    """Check that listing a plugin imports no heavy packages. Raises ConformanceError."""
    # This runs in a separate process, since a test in this process may have imported pandas. Other
    # plugins are not loaded, since they may import heavy packages.
    script = (
        "import sys\nfrom ktdeval.registry.plugin_registry import EntryPoint, KINDS, "
        f"Plugins\nplugins = Plugins()\nplugins.add_entry_point(EntryPoint('', {module!r}, '', "
        f"'checked', ''))\n[plugins.specs(kind) for kind in KINDS]\nprint(*sorted(set({HEAVY!r}) "
        "& set(sys.modules)))"
    )
    path = f"import sys\nsys.path[:0] = {[entry for entry in _path_of(module) if entry]!r}\n"
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", path + script], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:]
        raise ConformanceError(f"listing fails in a fresh process: {last}; correct the manifest")

    heavy = done.stdout.strip()
    if heavy:
        raise ConformanceError(
            f"listing imports {heavy}; import it inside the maker, or under TYPE_CHECKING"
        )


def _path_of(module: str) -> list[str]:
    """Return `sys.path`, extended by the folder of the plugin's module, which may have been loaded
    from a path.
    """
    manifest: Any = sys.modules.get(module.partition(":")[0])
    file = getattr(manifest, "__file__", None)
    if file is None:
        return sys.path

    levels = 2 if file.endswith("__init__.py") else 1
    return [*sys.path, file.rsplit("/", levels)[0]]
