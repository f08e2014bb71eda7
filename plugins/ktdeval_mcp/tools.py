"""Commands of ktdeval as tools: the arguments of each tool, and the command line that it runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import msgspec
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from ktdeval.cli import load_command
from ktdeval.errors import UsageError
from ktdeval.values import load_yaml

#: Options that no tool offers, although every command has them: output options, and `--plugin`,
#: which runs a file
_NEVER_OFFERED = frozenset({"as_json", "plugin", "_click_default_help"})


class ToolDeclaration(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An entry in tools.yaml."""

    command: str  #: words of the command line
    when: str  #: when an assistant should use the tool
    only: tuple[str, ...] = ()  #: parameters that are offered; empty: all
    without: tuple[str, ...] = ()  #: parameters that are not offered
    writes: bool = False  #: whether the command writes files
    prints_text: bool = True  #: whether the command is also run without `--json`, for its text


@dataclass(frozen=True)
class CommandTool:
    """A command as a tool: its declaration, its parameters keyed by argument name, and its
    description.
    """

    name: str
    declaration: ToolDeclaration
    parameters: Mapping[str, click.Parameter]
    description: str

    @property
    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the arguments."""
        properties = {name: _schema_of(each) for name, each in self.parameters.items()}
        required = [name for name, each in self.parameters.items() if each.required]
        return {
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": False,
        }

    def words(self, arguments: Mapping[str, Any], *flags: str) -> list[str]:
        """Return the command line for a call, with additional flags. Raises UsageError if an
        argument is unknown, missing or of the wrong type.
        """
        check_arguments(self.name, self.schema, arguments)

        words = [*self.declaration.command.split(), *flags]
        positional: list[str] = []
        for name, parameter in self.parameters.items():
            value = arguments.get(name)
            if isinstance(parameter, click.Option):
                words.extend(_option_words(parameter.opts[0], value))
            else:
                positional.extend(_texts_of(value))

        # after `--`, a file name that starts with a dash is not read as an option
        return [*words, "--", *positional] if positional else words


def check_arguments(tool: str, schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    """Raise UsageError unless the arguments of a tool follow its JSON Schema."""
    error = best_match(Draft202012Validator(schema).iter_errors(arguments))
    if error is not None:
        place = "".join(f" {part}:" for part in error.absolute_path)
        raise UsageError(f"{tool}:{place} {error.message}")


def command_tools(root: click.Command) -> dict[str, CommandTool]:
    """Return the tools, keyed by name. Commands that are not installed are skipped. `root` is the
    command `ktdeval`.
    """
    declared: dict[str, Any] = load_yaml(Path(__file__).with_name("tools.yaml"))
    tools = {}
    for name, entry in declared.items():
        declaration = msgspec.convert(entry, ToolDeclaration)
        command = _find_command(root, declaration.command)
        if command is not None:
            parameters = dict(_offered_parameters(command, declaration))
            help_text = " ".join((command.help or "").split())
            description = f"{help_text} {declaration.when}"
            tools[name] = CommandTool(name, declaration, parameters, description)

    return tools


def _find_command(root: click.Command, words: str) -> click.Command | None:
    command: click.Command | None = root
    for word in words.split():
        if not isinstance(command, click.Group):
            return None
        found = command.get_command(click.Context(command), word)
        command = None if found is None else load_command(found)

    return command


def _offered_parameters(
    command: click.Command, declaration: ToolDeclaration
) -> Iterator[tuple[str, click.Parameter]]:
    """Yield each parameter that a tool takes, with the name of its argument. The argument has the
    name of the option without dashes.
    """
    for parameter in command.get_params(click.Context(command)):
        name = parameter.opts[0].removeprefix("--").replace("-", "_")
        is_chosen = not declaration.only or name in declaration.only
        is_hidden = name in declaration.without or parameter.name in _NEVER_OFFERED
        if is_chosen and not is_hidden:
            yield name, parameter


def _schema_of(parameter: click.Parameter) -> dict[str, Any]:
    """Return the JSON Schema of an argument, including the help text of its option."""
    schema = _type_of(parameter)
    if getattr(parameter, "multiple", False) or parameter.nargs == -1:
        schema = {"type": "array", "items": schema}

    shown_as = parameter.metavar or ""
    help_text = getattr(parameter, "help", None) or "file or folder"
    schema["description"] = f"{shown_as}: {help_text}" if shown_as else help_text
    return schema


def _type_of(parameter: click.Parameter) -> dict[str, Any]:
    if isinstance(parameter.type, click.Choice):
        return {"type": "string", "enum": list(parameter.type.choices)}
    if isinstance(parameter.type, click.types.BoolParamType):
        return {"type": "boolean"}
    if isinstance(parameter.type, click.types.IntParamType):
        return {"type": "integer"}
    if isinstance(parameter.type, click.types.FloatParamType):
        return {"type": "number"}
    return {"type": "string"}


def _option_words(option: str, value: Any) -> list[str]:
    if isinstance(value, bool):
        return [option] if value else []
    return [f"{option}={text}" for text in _texts_of(value)]


def _texts_of(value: Any) -> list[str]:
    """Return the values of an argument as command-line words; empty if the argument is not given."""
    if value is None:
        return []
    if isinstance(value, list):
        return [str(each) for each in value]
    return [str(value)]
