"""Registry of plugins and of what they offer: tasks, models, agents, tools, metrics and so on.

`load_plugins()` returns a new object each time, without module-level state. Plugins come from entry
points (group `ktdeval`) and from `--plugin`. Each kind is collected on first use, so that listing
models reads no task file.
"""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pluggy

from ktdeval.errors import ConfigError, KtdevalError, PluginError, UsageError
from ktdeval.hookspecs import Spec
from ktdeval.registry import plugin_boundary
from ktdeval.registry.discovery import EntryPoint, find_entry_points
from ktdeval.registry.own_files import code_files
from ktdeval.registry.plugin_boundary import (
    KINDS as KINDS,
    call_foreign,
    call_through,
    hooks_of,
    import_reference,
    one_line,
)
from ktdeval.registry.task_settings import (
    is_task_file,
    last_setting,
    matching_tasks,
    without_settings,
)
from ktdeval.values.misfit import near_names
from ktdeval.values.options.config_options import build_params, near_matches

if TYPE_CHECKING:
    from ktdeval.harness.agent import Agent
    from ktdeval.harness.chat_messages import Model
    from ktdeval.harness.tools.tool_definition import Tool
    from ktdeval.market.snapshots.snapshot import MarketSnapshot
    from ktdeval.market.venues.venue import Venue
    from ktdeval.stats.metric import Metric
    from ktdeval.task_api.episode_spec import Runner
    from ktdeval.task_api.events import Event
    from ktdeval.task_api.trading_task import Task

_ONE_OF = {
    "tasks": "task",
    "models": "model",
    "agents": "agent",
    "tools": "tool",
    "metrics": "metric",
    "data": "data provider",
}
_ONE_OF |= {"tables": "paper table"}
_ONE_OF |= {"venues": "venue", "cards": "card kind", "runners": "runner", "commands": "command"}


def count_of(kind: str, count: int) -> str:
    """Return a count with its noun, such as `1 task` or `7 models`."""
    return f"{count} {_ONE_OF[kind]}{'' if count == 1 else 's'}"


@cache
def hints() -> dict[str, Any]:
    """Return `hints.json`: hints for unknown names, built-in commands, and option groups."""
    content: dict[str, Any] = json.loads(
        Path(__file__).with_name("hints.json").read_text(encoding="utf-8")
    )
    return content


def hint(kind: str, name: str, value: str = "") -> str:
    """Return `; HINT` for a name that does not exist in ktdeval; empty if no hint is known.

    `kind`: `commands`, `options`, `models` or `model_args`. `value`: the model argument's value.
    """
    matches = (
        text for pattern, text in hints()[kind].items() if fnmatch.fnmatchcase(name, pattern)
    )
    return next((f"; {text.format(name=name, value=value)}" for text in matches), "")


_OF_ALL_MODELS = ("Model and agent", "Market and episodes", "Money, time and trouble")
"""Option groups whose options users often mistake for model arguments."""
_LONGEST_VALUE = 20  # maximum number of characters of an argument's value that an error repeats


def _argument_problem(name: str, value: Any, params: type | None) -> str | None:
    """Return what the user may have meant by an argument that a model lacks; None if unknown."""
    own = set() if params is None else {field.name for field in fields(params)}
    if name in own:
        return None

    typed = "…"
    if isinstance(value, int | float | str):
        typed = str(value)[:_LONGEST_VALUE]
    if known := hint("model_args", name, typed):
        return known

    groups = hints()["option_groups"]
    options: list[str] = []
    for group in _OF_ALL_MODELS:
        options += groups[group]

    if name in options:
        return f"; it is an option of its own: --{name.replace('_', '-')} {typed}"
    if near_matches(name, own):
        return None

    near = near_names(name, options, min_likeness=0.75)
    if not near:
        return None
    return f"; did you mean the option --{near[0].replace('_', '-')}?"


@dataclass(frozen=True, slots=True)
class PluginInfo:
    """Loaded plugin."""

    name: str  #: module of the plugin, such as `ktdeval_models`
    #: installed distribution that advertises the plugin; "" if it was added by `--plugin`
    distribution: str
    version: str  #: version of the distribution
    hooks: tuple[str, ...]  #: names of the hooks that the plugin implements, sorted
    files: tuple[str, ...] = ()  #: files that hold its code (`code_files`)


Warn = Callable[[str], None]  #: called with one line for each plugin that is skipped


def load_plugins(extra: Sequence[str] = (), warn: Warn | None = None) -> Plugins:
    """Import the manifests of all installed plugins and those in `extra` into a new registry.

    `extra`: modules or paths (a .py file, a package folder or a task file), as given by `--plugin`.
    `warn` is called once for each skipped plugin, even if it fails only when a hook is called.

    An installed plugin that can't be imported is listed in `broken` and otherwise ignored. Raises
    PluginError if a plugin in `extra` can't be imported, or if any plugin misspells a hook.
    """
    plugins = Plugins(warn)
    for entry in find_entry_points():
        plugins.add_entry_point(entry)

    for reference in extra:
        if is_task_file(reference):
            plugins.add_task_file(reference)
            continue

        try:
            module = plugin_boundary.import_module_or_path(reference)
        except PluginError as error:
            raise PluginError(f"--plugin {reference}: {error}") from error

        if not hooks_of(module):
            raise PluginError(
                f"--plugin {reference}: offers nothing: it has no hook; give it one, such as"
                " ktdeval_tasks marked with @hookimpl"
            )

        plugins.add(module, module.__name__)

    plugins.check()
    return plugins


def _has_models_of(provider: str, specs: Iterable[str]) -> bool:
    """Return whether a provider's models are listed in full, such as `builtin/hold`."""
    return any(name.startswith(f"{provider}/") for name in specs)


def _is_remote(model: Model) -> bool:
    """Return whether a model is behind a network."""
    from ktdeval.harness.chat_messages import as_remote  # noqa: PLC0415 - listings make no model

    return as_remote(model) is not None


class Plugins:
    """Registry of loaded plugins."""

    def __init__(self, warn: Warn | None = None) -> None:
        self._warn = warn
        self.broken: dict[str, str] = {}  #: plugin name -> why the plugin was skipped, in one line
        #: plugin name -> details, in the order of loading
        self.info: dict[str, PluginInfo] = {}
        #: path -> names of the tasks in the file, for task files outside packages
        self.task_files: dict[str, tuple[str, ...]] = {}
        self._manager = plugin_boundary.HookManager()
        self._specs: dict[str, dict[str, Spec]] = {}
        self._remote: dict[str, bool | None] = {}  # keyed by the name of the model's spec
        self._derivations: dict[str, Spec] = {}
        own = [
            *(("commands", name) for name in hints()["built_in"]),
            *(("commands", name) for name in hints()["shared_groups"]),
            ("cards", "trading"),
            ("cards", "scoring"),
        ]
        self._owners: dict[tuple[str, str], str] = dict.fromkeys(own, "ktdeval itself")

    # ---- loading

    def add_entry_point(self, entry: EntryPoint) -> None:
        """Import and register an entry point's plugin; if this fails, list it in `broken`."""
        if entry.value in self.info:  # if a module is advertised twice, it is still the same plugin
            return

        try:
            plugin = import_reference(entry.module, entry.attribute)
        except PluginError as error:
            self._skip(entry.value, error)
            return

        self.add(plugin, entry.value, entry.distribution, entry.version)

    def add(self, plugin: object, name: str, distribution: str = "", version: str = "") -> None:
        """Register an imported plugin.

        Raises PluginError if the plugin misspells a hook, forgets `@hookimpl`, or implements a hook
        with arguments that the hook does not have.
        """
        if name in self.info or self._manager.is_registered(plugin):
            return

        plugin_boundary.check_hook_names(plugin, name)
        try:
            self._manager.register(plugin, name)
        except pluggy.PluginValidationError as error:
            raise PluginError(f"plugin {name}: {one_line(error)}") from error

        info = PluginInfo(name, distribution, version, hooks_of(plugin), code_files(plugin))
        self.info[name] = info

    def add_task_file(self, path: str) -> tuple[str, ...]:
        """Add the tasks in a YAML file outside any package, and return their names. Raises
        ConfigError if it is not a task file.
        """
        from ktdeval.registry.task_files import TaskFile  # noqa: PLC0415 - only if a file is named

        tasks = TaskFile(path)
        self.task_files[path] = tasks.names
        self.add(tasks, path)
        self._specs.pop("tasks", None)
        self._derivations.clear()

        return tasks.names

    def _skip(self, plugin: str, error: Exception) -> None:
        if plugin in self.info and not self.info[plugin].distribution:
            # The user asked for it with --plugin, and so would not want to continue without it.
            raise PluginError(f"plugin {plugin}: {error}") from error
        self.broken[plugin] = str(error)
        if self._warn is not None:
            self._warn(f"plugin {plugin} is skipped: {error}")

    def check(self) -> None:
        """Raise PluginError, which names plugin and hook, if a plugin's hook does not exist."""
        try:
            self._manager.check_pending()
        except pluggy.PluginValidationError as error:
            raise PluginError(one_line(error)) from error

    def register_observer(self, observer: object) -> None:
        """Register an observer of events: an object with a `@hookimpl` named `ktdeval_event`."""
        self.add(observer, f"{type(observer).__qualname__}-{id(observer):x}")

    def emit(self, event: Event) -> None:
        """Pass an event to every observer. An observer that raises an exception is dropped with a
        warning, since an observer must not be able to end a run.
        """
        for implementation in self._manager.hook.ktdeval_event.get_hookimpls():
            name = implementation.plugin_name
            try:
                # as in pluggy, an implementation may leave out arguments that it does not use
                arguments = (event,) if implementation.argnames else ()
                call_foreign(implementation.function, "ktdeval_event", *arguments)
            except PluginError as error:
                self._manager.unregister(name=name)
                self.broken[name] = str(error)
                if self._warn is not None:
                    self._warn(f"plugin {name} receives no further events: {error}")

    # ---- names

    def specs(self, kind: str) -> dict[str, Spec]:
        """Return everything of one kind that plugins offer, keyed by name and sorted by it.

        Raises PluginError if two plugins offer the same name, or a hook returns other objects.
        """
        if kind not in self._specs:
            specs = self._collect(kind)
            if kind == "tasks":
                from ktdeval.registry.task_files import (  # noqa: PLC0415 - `ktdeval --help` lists no tasks
                    resolve_variants,
                )

                specs, problems = resolve_variants(specs)
                for name, problem in problems.items():
                    self._skip(self._owners[kind, name], problem)

            self._specs[kind] = specs

        return dict(self._specs[kind])

    def _collect(self, kind: str) -> dict[str, Spec]:
        specs: dict[str, Spec] = {}
        hook = f"ktdeval_{kind}"
        # Implementations are called one by one instead of through pluggy's multicall. Each name
        # then has a known owner, and a failure only affects one plugin.
        for implementation in getattr(self._manager.hook, hook).get_hookimpls():
            plugin = implementation.plugin_name
            try:
                offered = call_foreign(implementation.function, hook)
            except PluginError as error:
                self._skip(plugin, error)
                continue

            for spec in plugin_boundary.offered_specs(kind, offered, f"plugin {plugin}: {hook}"):
                owner = self._owners.setdefault((kind, spec.name), plugin)
                if owner != plugin:
                    first = f"plugin {owner}" if owner in self.info else owner
                    raise PluginError(
                        f"{_ONE_OF[kind]} {spec.name!r} is offered by {first} and by plugin"
                        f" {plugin}; rename it in one of them"
                    )

                specs[spec.name] = spec

        return dict(sorted(specs.items()))

    def owner(self, kind: str, name: str) -> str:
        """Return the name of the plugin that offers `name`."""
        self.spec(kind, name)
        return self._owners[kind, name]

    def spec(self, kind: str, name: str) -> Spec:
        """Return the spec with this name. Raises UsageError, with similar names and the skipped
        plugins, if the name is unknown.
        """
        specs = self.specs(kind)
        if name not in specs and kind == "tasks" and (made := self._derive_task(name)):
            return made
        if name not in specs:
            near = near_matches(name, specs) or f"; see `ktdeval list {kind}`"
            raise UsageError(f"unknown {_ONE_OF[kind]} {name!r}{near}{self._list_skips()}")

        return specs[name]

    def _derive_task(self, name: str) -> Spec | None:
        """Return the task described by a name that ends in settings; None if no task matches."""
        if name not in self._derivations:
            from ktdeval.registry.task_files import derived_spec  # noqa: PLC0415 - help lists no tasks

            base_name, suffix = last_setting(name)
            base = self.specs("tasks").get(base_name)
            if base is None and suffix:
                base = self._derive_task(base_name)
            if base is None or not suffix:
                return None

            self._derivations[name] = derived_spec(base, name, suffix)
            self._owners["tasks", name] = self._owners["tasks", base.name]

        return self._derivations[name]

    def is_derived(self, name: str) -> bool:
        """Return whether a name consists of a task's name and settings, such as `TASK_compact`."""
        base = without_settings(name)
        return base != name and base in self.specs("tasks")

    def _list_skips(self) -> str:
        return f" (skipped plugins: {', '.join(sorted(self.broken))})" if self.broken else ""

    def resolve_tasks(self, patterns: Sequence[str]) -> list[str]:
        """Return the names of the tasks that match patterns, in order and without duplicates.

        A pattern is a task, a group, a glob such as `blinded_*`, or a task file. It may be followed
        by `_spread`, `_sqrt` and `_compact`. Raises UsageError if no patterns are given, if
        a pattern matches nothing (the message suggests similar names), or if a task has no compact
        prompt or executes no orders.
        """
        if not patterns:
            raise UsageError("no task: name one with --tasks (see `ktdeval list tasks`)")

        plain = [without_settings(pattern) for pattern in patterns]
        for pattern in filter(is_task_file, plain):
            if pattern not in self.task_files:
                self.add_task_file(pattern)

        specs = self.specs("tasks")
        chosen: dict[str, None] = {}

        for given, without in zip(patterns, plain, strict=True):
            is_derived = given != without and given not in specs
            pattern = without if is_derived else given
            names = matching_tasks(pattern, specs)
            if pattern in self.task_files and pattern not in specs:
                names = list(self.task_files[pattern])

            if not names:
                groups = {group for spec in specs.values() for group in spec.groups}
                near = near_matches(pattern, [*specs, *groups]) or "; see `ktdeval list tasks`"
                raise UsageError(f"no task or group matches {pattern!r}{near}{self._list_skips()}")

            if is_derived:
                settings = given.removeprefix(without)
                names = [self.spec("tasks", f"{name}{settings}").name for name in names]

            chosen.update(dict.fromkeys(names))

        return list(chosen)

    # ---- making

    def make_task(self, name: str, items: str | None = None) -> Task:
        """Make the task called `name`, with samples from the source `items` if given. Raises
        UsageError if the task can't take other samples.
        """
        if items is None:
            return cast("Task", self.make("tasks", name))

        from ktdeval.registry.task_files import (  # noqa: PLC0415 - `ktdeval --help` imports no task file
            ITEMS_KEY,
        )

        extra = self.spec("tasks", name).extra
        refused = f"task {name!r} takes no --items; it brings its own samples"
        if "config" not in extra:
            raise UsageError(refused)

        try:
            task: Task = extra["make"](name, {**extra["config"], ITEMS_KEY: items}, extra["where"])
        except ConfigError as error:
            if ITEMS_KEY in str(error):
                raise UsageError(refused) from error

            raise

        return task

    def make_model(self, full_name: str, args: Mapping[str, Any] | None = None) -> Model:
        """Return the model called `full_name`, which is a listed name such as `builtin/hold`, or
        `PROVIDER/anything` for a listed provider. Raises UsageError, with similar names, if the
        name is unknown, or if it names a provider without a model.
        """
        spec_name, rest = self.model_spec_name(full_name)
        params = self.spec("models", spec_name).params
        for name, value in (args or {}).items():
            problem = _argument_problem(name, value, params)
            if problem is not None:
                raise UsageError(f"model {spec_name} has no argument {name!r:.60}{problem}")

        model = cast("Model", self.make("models", spec_name, args, rest))
        stated = self.spec("models", spec_name).remote
        if stated is not None and stated != _is_remote(model):
            raise PluginError(
                f"model {spec_name} of plugin {self._owners['models', spec_name]}: its Spec says"
                f" remote={stated}, but its model contradicts that; correct the Spec"
            )

        return model

    def is_remote(self, full_name: str) -> bool | None:
        """Return whether the model called `full_name` is behind a network.

        The answer comes from the plugin's declaration or, failing that, from a model made without
        parameters, never from a run's records. None if no plugin offers the model, or if it can't
        be made without parameters.
        """
        try:
            spec_name, _ = self.model_spec_name(full_name)
        except UsageError:
            return None

        if spec_name not in self._remote:
            self._remote[spec_name] = self._found_remote(spec_name)

        return self._remote[spec_name]

    def _found_remote(self, spec_name: str) -> bool | None:
        stated = self.spec("models", spec_name).remote
        if stated is not None:
            return stated
        try:
            return _is_remote(self.make("models", spec_name, {}, "any"))
        except KtdevalError:
            return None

    def model_spec_name(self, full_name: str) -> tuple[str, str]:
        """Return the name of a model's spec, and the part after the slash, for its `make`."""
        specs = self.specs("models")
        provider, slash, rest = full_name.partition("/")
        if slash and full_name in specs:
            return full_name, rest

        if provider in specs:
            if not rest:
                raise UsageError(
                    f"{provider!r} is a provider of models; name one of its models, as in"
                    f" {provider}/NAME"
                )

            return provider, rest

        if full_name not in specs and (advice := hint("models", provider)):
            raise UsageError(f"unknown model {full_name!r}{advice}")

        if slash and rest and full_name not in specs and not _has_models_of(provider, specs):
            raise UsageError(
                f"unknown provider {provider!r:.60}{near_matches(provider, specs)}; see"
                " `ktdeval list models`, or ask any server that speaks OpenAI's Chat Completions: --model"
                f" openai_compatible/{rest} --base-url https://ADDRESS/v1"
            )

        return self.spec("models", full_name).name, rest

    def make_agent(self, name: str, args: Mapping[str, Any] | None = None) -> Agent:
        """Return the agent scaffold called `name`."""
        return cast("Agent", self.make("agents", name, args))

    def make_metric(self, name: str) -> Metric:
        """Return the metric called `name`."""
        return cast("Metric", self.make("metrics", name))

    def venues(self) -> dict[str, Venue]:
        """Return all venues, keyed by name."""
        return {name: self.make_venue(name) for name in self.specs("venues")}

    def make_venue(self, name: str) -> Venue:
        """Return the venue called `name`."""
        return cast("Venue", self.make("venues", name))

    def owners(self, kind: str, names: Iterable[str]) -> dict[str, str]:
        """Return the plugin that offers each name of a kind; unknown names are left out."""
        return {name: self._owners[kind, name] for name in names if (kind, name) in self._owners}

    def tools(self, names: Sequence[str]) -> tuple[Tool, ...]:
        """Return the tools in the order of `names`. Raises ConfigError if a name appears twice."""
        if len(set(names)) < len(names):
            raise ConfigError(f"tools: a name appears twice: {', '.join(names)}")
        return tuple(self.make("tools", name) for name in names)

    def make_snapshot(self, name: str, args: Mapping[str, Any] | None = None) -> MarketSnapshot:
        """Return the market from the data provider called `name`, without an id."""
        form = self.spec("data", name).extra.get("form")
        if form is not None:
            raise UsageError(
                f"data provider {name!r} makes a {form.name}, not a market; write it with `ktdeval"
                f" data make {name} --out DIR`"
            )

        return cast("MarketSnapshot", self.make("data", name, args))

    def make_runner(self, name: str) -> Runner:
        """Return the execution backend called `name`."""
        return cast("Runner", self.make("runners", name))

    def make(
        self, kind: str, name: str, args: Mapping[str, Any] | None = None, *arguments: Any
    ) -> Any:
        """Make and check the object of a kind that a plugin offers as `name`.

        Raises UsageError if the name or an argument is unknown, PluginError if the plugin fails.
        """
        spec = self.spec(kind, name)
        where = f"{_ONE_OF[kind]} {name}"
        if spec.params is not None:
            arguments = (*arguments, build_params(spec.params, args or {}, where))
        elif args and (kind, *args) != plugin_boundary.PINNED:
            raise UsageError(f"{where} takes no arguments, was given {', '.join(sorted(args))}")

        where = f"{where} of plugin {self._owners[kind, name]}"
        if problem := plugin_boundary.mismatch(spec.make, arguments):
            given = "with" if spec.params else "without"
            raise PluginError(
                f"{where}: make of its Spec: {problem}; a Spec {given} params calls it {given} them"
            )

        try:
            instance = call_through(spec.make, where, *arguments)
        except PluginError as error:
            cause = error.__cause__
            if isinstance(cause, ImportError) and plugin_boundary.is_other_package(
                cause, self._owners[kind, name]
            ):
                raise PluginError(
                    f"{where} needs a package that can't be imported: {one_line(cause)}"
                ) from cause

            raise

        plugin_boundary.check_made(kind, name, instance, where)
        return instance
