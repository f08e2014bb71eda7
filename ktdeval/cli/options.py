"""Command-line options that derive from `RunConfig`, and the plugins of commands."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import click

from ktdeval.config import RunConfig, is_list, load_config, names_in
from ktdeval.fields import parse_assignments, user_path
from ktdeval.registry import Plugins, hints, load_plugins

F = TypeVar("F", bound=Callable[..., Any])

_METAVARS = {"out": "DIR", "limit": "STEPS", "items": "SOURCE", "base_url": "URL", "price_table": "FILE", "certificate": "FILE",
             "registration": "FILE"}  # fmt: skip
_METAVARS |= {"cache": "shared|run|FILE", "max_cost": "USD", "knowledge_cutoff": "DATE", "int": "N", "float": "X"}


class Number(click.FloatRange):
    """A finite number in a range. Unlike click's own this leaves out `nan`, which is outside of every range, and infinity."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number", param, ctx)
        return number


class FilePath(click.Path):
    """Path of a file or folder: not the empty text, as a shell makes of a variable that is not set, which would be this folder."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(path_type=Path, **settings)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Return the path."""
        if value == "":
            self.fail("the path is empty", param, ctx)
        return super().convert(user_path(value), param, ctx)  # type: ignore[return-value]  # as `path_type` says


json_option = click.option("--json", "as_json", is_flag=True, help="print JSON")
plugin_option = click.option(
    "--plugin", "extra", multiple=True, metavar="PLUGIN", help="further plugin, a module or a path to one; may be repeated"
)


def warn(message: str) -> None:
    """Print a warning on stderr."""
    click.echo(f"ktdeval: warning: {message}", err=True)


def open_plugins(extra: Sequence[str] = ()) -> Plugins:
    """Return all plugins, with a warning on stderr for each that is skipped. `extra` as given by `--plugin`."""
    return load_plugins(extra, warn)


def run_options() -> list[click.Parameter]:
    """Return one option for each field of `RunConfig`, in its order, and `--config`."""
    hints = get_type_hints(RunConfig)
    options = [field_option(field, hints[field.name]) for field in dataclasses.fields(RunConfig)]
    file_help = "YAML file of these options (underscores for dashes); what the command line says counts more"
    return [*options, click.Option(["--config", "config_file"], type=FilePath(), metavar="FILE", help=file_help)]


def grouped(options: Sequence[click.Parameter]) -> dict[str, list[click.Parameter]]:
    """Return options by the title of their group, the most needed first; those of no group under `Others`."""
    by_name = {option.name: option for option in options}
    groups = {title: [by_name.pop(name) for name in names if name in by_name] for title, names in hints()["option_groups"].items()}
    return {**groups, "Others": list(by_name.values())}


def write_groups(ctx: click.Context, formatter: click.HelpFormatter, groups: Mapping[str, Sequence[click.Parameter]]) -> None:
    """Write options of help by group."""
    for title, options in groups.items():
        with formatter.section(title):
            formatter.write_dl([row for option in options if (row := option.get_help_record(ctx)) is not None], col_max=24)


class GroupedCommand(click.Command):
    """Command whose help has its options in groups."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options by group."""
        write_groups(ctx, formatter, grouped(self.get_params(ctx)))


def config_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a click command body: it gets a `RunConfig` as its first argument, built from `--config` and the options."""
    names = [field.name for field in dataclasses.fields(RunConfig)]

    @functools.wraps(function)
    def body(config_file: Path | None, **values: Any) -> Any:
        overrides = {name: values.pop(name) for name in names}
        return function(load_config(config_file, overrides), **values)

    return _with_options(body, run_options())


def config_option(*names: str) -> Callable[[F], F]:
    """Decorate a click command body with the options of single `RunConfig` fields; what was not given arrives as None. Defaults are
    not shown in help: where a command does not start a run, an option left out means what the run was made with.
    """
    hints = get_type_hints(RunConfig)
    fields = {field.name: field for field in dataclasses.fields(RunConfig)}
    return lambda function: _with_options(function, [field_option(fields[name], hints[name], False) for name in names])


def inherited(context: click.Context | None, name: str) -> Any:
    """Return the value of an option that may stand before or after a subcommand's name: the innermost one that was given."""
    while context is not None:
        if context.params.get(name):
            return context.params[name]
        context = context.parent
    return None


def _with_options(function: F, options: Sequence[click.Parameter]) -> F:
    # The list that click's own decorators fill; it reads it backwards, as decorators run from the bottom up.
    existing: list[click.Parameter] = getattr(function, "__click_params__", [])
    function.__click_params__ = [*existing, *reversed(options)]  # type: ignore[attr-defined]
    return function


def field_option(field: dataclasses.Field[Any], hint: Any, with_default: bool = True) -> click.Parameter:
    """Return the option of a field of this type, or its argument where its metadata give a `flag` without dashes; None where it was
    not given.
    """
    flag = field.metadata.get("flag") or f"--{field.name.replace('_', '-')}"
    if not flag.startswith("-"):
        return click.Argument([field.name], required=False, metavar=flag)
    silent = (dataclasses.MISSING, None, (), False)
    default = f" [default: {field.default}]" if with_default and not any(field.default is value for value in silent) else ""
    required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    kwargs: dict[str, Any] = {"help": f"{field.metadata.get('help', '')}{' [required]' if required else default}", "default": None}
    # The words of a `Literal`, or of one that may also be None.
    choices = get_args(next((one for one in (hint, *get_args(hint)) if get_origin(one) is Literal), None))
    if is_list(hint):
        kwargs |= {"multiple": True, "callback": _list_callback, "metavar": f"{field.name.removesuffix('s').upper()},…"}
    elif get_origin(hint) in (Mapping, dict):
        kwargs |= {"multiple": True, "callback": _mapping_callback, "metavar": "KEY=VALUE,…"}
    elif choices:
        # Not click.Choice: the config's own message suggests near words, and is the same for a YAML file.
        kwargs |= {"type": str, "metavar": f"[{'|'.join(choices)}]"}
    elif hint is bool:
        kwargs |= {"type": bool, "metavar": "true|false"} if field.default is True else {"is_flag": True, "flag_value": True}
    else:
        scalar = next((arg for arg in get_args(hint) if arg is not type(None)), hint)
        kwargs |= {"type": scalar, "metavar": _METAVARS.get(field.name) or _METAVARS.get(scalar.__name__, field.name.upper())}
    return click.Option([flag, field.name], **kwargs)


def _list_callback(_context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> tuple[str, ...] | None:
    return names_in(texts, parameter.opts[0]) if texts else None


def _mapping_callback(_context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> dict[str, Any] | None:
    return parse_assignments(texts, parameter.opts[0]) if texts else None
