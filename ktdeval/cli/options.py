"""Command-line options derived from `RunConfig`, and loading of plugins for commands."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import click

from ktdeval.cli.help.completers import (
    Completer,
    complete_data,
    complete_names,
    complete_path,
    complete_words,
)
from ktdeval.cli.typed_plugins import (
    open_plugins as open_plugins,
    plugin_words as plugin_words,
    warn as warn,
)
from ktdeval.registry.plugin_registry import hints
from ktdeval.runner.plans.config import RunConfig, is_list, load_config, names_in
from ktdeval.values.disk.files import OutputKind, check_output
from ktdeval.values.options.config_options import parse_assignments, user_path
from ktdeval.values.requests.secret_free_addresses import Address, Parameters

F = TypeVar("F", bound=Callable[..., Any])

_METAVARS = {
    "out": "DIR",
    "limit": "STEPS",
    "items": "SOURCE",
    "base_url": "URL",
    "price_table": "FILE",
    "certificate": "FILE",
    "registration": "FILE",
}
_METAVARS |= {"volume_unit": "UNIT,…", "amount_unit": "UNIT,…", "endpoint": "URL"}
_METAVARS |= {"answers": "DIR", "first": "DATE", "last": "DATE"}
_FILES = "bars benchmark documents entities factors fx industry members minutes names splits"
_METAVARS |= dict.fromkeys(_FILES.split(), "FILE")  # file options of an import
_METAVARS |= {
    "cache": "shared|run|FILE",
    "max_cost": "USD",
    "knowledge_cutoff": "DATE",
    "int": "N",
    "float": "X",
}

WORDS = "ktdeval.words"  #: key of a command line's words in the `meta` of its contexts

#: kind of names that a field accepts
_NAMES = {
    "model": "models",
    "models": "models",
    "tasks": "tasks",
    "agent": "agents",
    "agents": "agents",
    "metrics": "metrics",
    "windows": "windows",
    "runner": "runners",
}
#: what the path in a field refers to
_PATHS = {
    "out": "dir",
    "items": "file",
    "price_table": "file",
    "certificate": "file",
    "registration": "file",
}


class FiniteNumber(click.FloatRange):
    """Finite number in a range, unlike click's own type, which accepts `nan` and infinity."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number", param, ctx)
        return number


class FilePath(click.Path):
    """Path of a file or folder, which must not be empty.

    For an unset variable, a shell passes an empty string, which would be taken as the working
    folder.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(path_type=Path, **settings)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Return the path."""
        if value == "":
            self.fail("the path is empty", param, ctx)

        if isinstance(value, str) and "://" in value:
            self.fail(f"{value!r} is a URL, and this takes a path of this machine", param, ctx)

        return super().convert(user_path(value), param, ctx)  # type: ignore[return-value]  # as `path_type` says


class RunPath(FilePath):
    """Path or URL of a run, of a folder of runs, or of a card. A URL is replaced by its local copy."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Return the path. Raises StoreError if the URL has no run."""
        if isinstance(value, str) and "://" in value:
            # imported only for URLs, because most commands can start without this module
            from ktdeval.runner.records.run_locator import local_run_path

            value = local_run_path(value)

        return super().convert(value, param, ctx)


class OutputPath(FilePath):
    """Path of an output file or folder, checked when options are parsed, before any work."""

    def __init__(self, kind: OutputKind, mark: str | None = None) -> None:
        """Accept outputs of this kind. Arguments are as for `check_output`."""
        super().__init__()
        self.kind = kind
        self._mark = mark

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Return the path. Raises StoreError if the path can't be written."""
        path = super().convert(value, param, ctx)
        option = param.opts[0] if param is not None else "path"
        check_output(path, self.kind, option, self._mark)

        return path


def run_options() -> list[click.Parameter]:
    """Return one option for each field of `RunConfig`, in field order, followed by `--config`."""
    hints = get_type_hints(RunConfig)
    options = [field_option(field, hints[field.name]) for field in dataclasses.fields(RunConfig)]
    file_help = (
        "YAML file of these options (underscores for dashes); options on the command line override"
        " it"
    )

    return [
        *options,
        click.Option(["--config", "config_file"], type=FilePath(), metavar="FILE", help=file_help),
    ]


def group_options(options: Sequence[click.Parameter]) -> dict[str, list[click.Parameter]]:
    """Return options by group title: most needed first, then `Others`, which have no group."""
    by_name = {option.name: option for option in options}
    groups: dict[str, list[click.Parameter]] = {}
    for title, names in hints()["option_groups"].items():
        groups[title] = [by_name.pop(name) for name in names if name in by_name]

    groups["Others"] = list(by_name.values())
    return groups


def write_groups(
    ctx: click.Context,
    formatter: click.HelpFormatter,
    groups: Mapping[str, Sequence[click.Parameter]],
    col_max: int = 24,
) -> None:
    """Write the help for options, by group. `col_max`: maximum width of the first column."""
    for title, options in groups.items():
        records = [option.get_help_record(ctx) for option in options]
        rows = [record for record in records if record is not None]
        if rows:
            with formatter.section(title):
                formatter.write_dl(rows, col_max=col_max)


class GroupedCommand(click.Command):
    """Command whose help shows its options in groups."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options by group."""
        write_groups(ctx, formatter, group_options(self.get_params(ctx)))


class RunOptionsCommand(click.Command):
    """Command that accepts options of `ktdeval run` in addition to its own options.

    These are the same option objects as for `run`: help names them without repeating their text,
    and shells can complete them. `run_names`: the accepted fields of `RunConfig`; if empty, all
    options of `run` are accepted.
    """

    def __init__(self, *arguments: Any, run_names: Sequence[str] = (), **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.run_names = tuple(run_names)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the command's own parameters, followed by those of `run`."""
        shared = []
        for option in run_options():
            if not self.run_names or option.name in self.run_names:
                shared.append(option)

        return [*super().get_params(ctx), *shared]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the command's own options, and list the options of `run` that it accepts."""
        own = super().get_params(ctx)
        options = [each for each in own if isinstance(each, click.Option)]
        write_groups(ctx, formatter, {"Options": options})
        with formatter.section("Options of `ktdeval run` (see `ktdeval run --help`)"):
            self._write_run_options(formatter)

    def _write_run_options(self, formatter: click.HelpFormatter) -> None:
        if not self.run_names:
            formatter.write_text("all of them, such as --model, --tasks and --config")
            return

        options = [f"--{name.replace('_', '-')}" for name in self.run_names]
        room = formatter.width - formatter.current_indent
        for line in textwrap.wrap(", ".join(options), room, break_on_hyphens=False):
            formatter.write(f"{'':>{formatter.current_indent}}{line}\n")


def config_of(values: dict[str, Any]) -> RunConfig:
    """Remove a run's options from a command's values, and return the config that they give."""
    config_file = values.pop("config_file")
    overrides = {field.name: values.pop(field.name) for field in dataclasses.fields(RunConfig)}
    return load_config(config_file, overrides)


def config_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a command body, so that its first argument is a `RunConfig` from its options."""

    @functools.wraps(function)
    def body(**values: Any) -> Any:
        return function(config_of(values), **values)

    return _with_options(body, run_options())


def config_option(*names: str) -> Callable[[F], F]:
    """Decorate a command body with the options for some fields of `RunConfig`.

    If an option is not given, None is passed. Help shows no defaults: in a command that does not
    start a run, omitting an option selects the value with which the run was made.
    """
    hints = get_type_hints(RunConfig)
    fields = {field.name: field for field in dataclasses.fields(RunConfig)}
    options = [field_option(fields[name], hints[name], with_default=False) for name in names]

    def decorate(function: F) -> F:
        return _with_options(function, options)

    return decorate


def flag(
    default: Any = dataclasses.MISSING,
    *,
    help: str,
    name: str = "",
    type: click.ParamType[Any] | None = None,
    metavar: str = "",
    complete: Completer | None = None,
) -> Any:
    """Return a dataclass field from which `options_of` creates an option.

    `default`: value if the option is not given; without a default, the option is required. `help`:
    help text; if it is empty, the option is hidden, since it is only passed between commands.
    `name`: name of the option if it isn't the field's name with dashes; there may be two, as in
    `--yes -y`. `type`: click type of the values, such as `OutputPath("file")`, if the field's own
    type does not determine it; the option for a tuple may then be repeated, and commas are part of
    its values. `metavar`: name of the value in help; if it is in brackets, the value may be
    omitted, and is then empty. `complete`: shell completer for the value.
    """
    metadata: dict[str, Any] = {
        "help": help,
        "type": type,
        "metavar": metavar,
        "complete": complete,
    }
    if isinstance(type, click.FloatRange | click.IntRange):
        metadata |= {"minimum": type.min, "maximum": type.max}  # as in `option`
    if name:
        metadata["flag"] = name
    if isinstance(default, dict):
        return dataclasses.field(default_factory=default.copy, metadata=metadata)

    return dataclasses.field(default=default, metadata=metadata)


def run_flag(name: str) -> Any:
    """Return a dataclass field from which `options_of` creates the `ktdeval run` option with this
    name.

    If the option is not given, the field is None or an empty list. The value with which a run was
    made then applies.
    """
    fields = {field.name: field for field in dataclasses.fields(RunConfig)}
    default = () if fields[name].default == () else None
    return dataclasses.field(default=default, metadata=fields[name].metadata)


def given_of(options: Any) -> dict[str, Any]:
    """Return the options that were given (neither None nor an empty tuple), keyed by name."""
    values = {field.name: getattr(options, field.name) for field in dataclasses.fields(options)}
    return {name: value for name, value in values.items() if value not in (None, ())}


def printing_option(name: str, text_of: Callable[[str], str], **shown: Any) -> click.Option:
    """Return an option like `--version`, which prints a text and ends the command.

    `text_of` returns the text for the option's value. `shown`: the option's type, metavar and help.
    """

    def print_text(context: click.Context, _option: click.Parameter, value: str | None) -> None:
        if value is None or context.resilient_parsing:
            return

        click.echo(text_of(value), nl=False)
        context.exit()

    return click.Option([name], is_eager=True, expose_value=False, callback=print_text, **shown)


def options_of(kind: type[Any]) -> Callable[[F], F]:
    """Decorate a command body with one option for each field of a dataclass. Fields of the class
    itself come first, then those of the classes that it inherits from.

    The body's argument `options` is an instance of the dataclass. Fields are created by `flag` (or,
    for params, by `option`). Their types are text, numbers, `Literal`, bool (a flag), `tuple[str,
    ...]` (a comma-separated list), a tuple whose values have a `type` (a repeated option), or a
    mapping (KEY=VALUE). Options that several commands share are in a dataclass from which the
    commands' options inherit, so that their help is the same.
    """
    fields = _own_first(kind)
    options = parameters_of(kind)

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def body(*arguments: Any, **values: Any) -> Any:
            given = {}
            for field in fields:
                value = values.pop(field.name)
                if value is not None:
                    given[field.name] = value

            return function(*arguments, options=kind(**given), **values)

        return _with_options(body, options)  # type: ignore[return-value]  # takes the options apart

    return decorate


def parameters_of(kind: type[Any]) -> list[click.Parameter]:
    """Return one option for each field of a dataclass, in the order of `options_of`. A command
    group uses these options, and its commands read them with `inherit_option`.
    """
    hints = get_type_hints(kind)
    return [field_option(field, hints[field.name]) for field in _own_first(kind)]


def _own_first(kind: type[Any]) -> list[dataclasses.Field[Any]]:
    """Return the fields of a dataclass: first its own fields, then those of each class that it
    inherits from.
    """
    by_name = {field.name: field for field in dataclasses.fields(kind)}
    ordered = []
    for owner in kind.__mro__:
        for name in inspect.get_annotations(owner):
            if name in by_name:
                ordered.append(by_name.pop(name))

    return ordered


@dataclasses.dataclass(frozen=True, kw_only=True)
class JsonOptions:
    """Option for commands that print JSON on request."""

    as_json: bool = flag(False, name="--json", help="print JSON")


@dataclasses.dataclass(frozen=True, kw_only=True)
class PluginOptions:
    """Option for commands that load plugins: the `extra` argument of `open_plugins`."""

    plugin: tuple[str, ...] = run_flag("plugin")


@dataclasses.dataclass(frozen=True, kw_only=True)
class MarketOptions:
    """Options for commands that read a run's market."""

    data: str | None = flag(
        None,
        metavar="DATA",
        help="the market, where it has moved since the run: a snapshot folder or data provider",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordedOptions(PluginOptions):
    """Options for commands on a finished run: the current location of its market, and anything else
    that it took from outside.
    """

    data: Address | None = run_flag("data")
    data_args: Parameters | None = run_flag("data_args")
    items: Address | None = run_flag("items")


def inherit_option(context: click.Context | None, name: str) -> Any:
    """Return the value of an option that may be given before or after a subcommand's name.

    If it is given in both places, the value after the name applies.
    """
    while context is not None:
        if context.params.get(name):
            return context.params[name]
        context = context.parent
    return None


def _with_options(function: F, options: Sequence[click.Parameter]) -> F:
    # Decorators are applied bottom-up, so click's own decorators append to this list, and click
    # reads it in reverse.
    existing: list[click.Parameter] = getattr(function, "__click_params__", [])
    function.__click_params__ = [*existing, *reversed(options)]  # type: ignore[attr-defined]
    return function


def field_option(
    field: dataclasses.Field[Any], hint: Any, with_default: bool = True
) -> click.Parameter:
    """Return the option for a field. If the option is not given, its value is None.

    A field whose metadata contain a `flag` without dashes becomes an argument.
    """
    names = field.metadata.get("flag")
    if names is None:
        names = "--" + field.name.replace("_", "-")

    if not names.startswith("-"):
        return click.Argument([field.name], required=False, metavar=names)

    settings = _value_settings(field, hint)
    completer = field.metadata.get("complete") or _completer(field, hint)
    if completer is not None:
        settings["shell_complete"] = completer

    if _may_be_bare(field):
        settings |= {"is_flag": False, "flag_value": ""}

    help_text = field.metadata.get("help", "")
    if "type" in field.metadata and is_required(field):  # made by `flag`
        settings["required"] = True  # help shows this by itself
    else:
        settings["default"] = None
        help_text += _help_suffix(field, with_default)

    if isinstance(settings.get("type"), OutputPath) and "required" not in settings:
        settings["default"] = field.default  # checked before work begins, like a given path

    settings["hidden"] = field.metadata.get("help") == ""
    return click.Option([*names.split(), field.name], help=help_text, **settings)


def _completer(field: dataclasses.Field[Any], hint: Any) -> Completer | None:
    """Return the completer for a field's values, or None."""
    name = field.name
    if name == "data":
        return complete_data
    if name in _NAMES:
        return complete_names(_NAMES[name])
    if name in _PATHS:
        return complete_path(_PATHS[name])

    words = _choices(hint)
    return complete_words(words) if words else None


def is_required(field: dataclasses.Field[Any]) -> bool:
    """Return whether a field has no default."""
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _may_be_bare(field: dataclasses.Field[Any]) -> bool:
    """Return whether an option may be given without a value."""
    metavar = field.metadata.get("metavar") or ""
    return bool(metavar.startswith("[") and metavar.endswith("]"))


def _help_suffix(field: dataclasses.Field[Any], with_default: bool) -> str:
    """Return what help appends to a field's text: that the option is required, or its default."""
    if field.default is dataclasses.MISSING:
        return " [required]" if is_required(field) else ""

    is_silent = any(field.default is value for value in (None, (), False))
    if is_silent or not with_default:
        return ""
    return f" [default: {field.default}]"


def _value_settings(field: dataclasses.Field[Any], hint: Any) -> dict[str, Any]:
    """Return click's settings for the values of a field: how they are parsed and how help shows
    them.
    """
    hint = _if_given(hint)
    own = field.metadata.get("metavar")
    given_type = field.metadata.get("type")
    if given_type is not None:
        settings: dict[str, Any] = {"type": given_type}
        if own:
            settings["metavar"] = own
        if is_list(hint):
            settings |= {"multiple": True, "callback": _repeated_callback}
        return settings

    if is_list(hint):
        metavar = own or f"{field.name.removesuffix('s').upper()},…"
        return {"multiple": True, "callback": _list_callback, "metavar": metavar}

    if get_origin(hint) in (Mapping, dict):
        return {"multiple": True, "callback": _mapping_callback, "metavar": "KEY=VALUE,…"}

    choices = _choices(hint)
    if choices and "type" in field.metadata:  # made by `flag`
        return {"type": click.Choice(choices)}
    if choices:
        # Unlike the message of click.Choice, the config's own message suggests similar words, and
        # is the same for a YAML file.
        return {"type": str, "metavar": f"[{'|'.join(choices)}]"}

    if hint is bool and field.default is True:
        return {"type": bool, "metavar": "true|false"}

    if hint is bool:
        return {"is_flag": True, "flag_value": True}

    by_type = _METAVARS.get(hint.__name__, field.name.upper())
    return {"type": hint, "metavar": own or _METAVARS.get(field.name, by_type)}


def _if_given(hint: Any) -> Any:
    """Return the type of a value that is not None: `X` for `X | None`."""
    parts = get_args(hint)
    if type(None) not in parts:
        return hint
    return next(part for part in parts if part is not type(None))


def _choices(hint: Any) -> tuple[str, ...]:
    """Return the values of a `Literal`, which may be optional; empty for other types."""
    for part in (hint, *get_args(hint)):
        if get_origin(part) is Literal:
            return get_args(part)
    return ()


def _list_callback(
    _context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]
) -> tuple[str, ...] | None:
    if not texts:
        return None
    return names_in(texts, parameter.opts[0])


def _repeated_callback(
    _context: click.Context, _parameter: click.Parameter, values: tuple[Any, ...]
) -> tuple[Any, ...] | None:
    return values or None


def _mapping_callback(
    _context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]
) -> dict[str, Any] | None:
    if not texts:
        return None
    return parse_assignments(texts, parameter.opts[0])
