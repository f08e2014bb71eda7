"""Tools as typed functions. A tool's JSON Schema comes from the function's signature, and bad
arguments lead to feedback, not exceptions.

    @tool
    def get_stock_snapshot(
        context: Scene, stock_id: AssetArg, lookback: Annotated[int, Bounds(1, 250)] = 20
    ) -> Payload:
        "Daily bars and factor values of one stock."

The docstring may also have an `Args:` section with a line for each argument. The model writes
handles; the function gets asset columns and day rows. It returns a payload of field types, which
the mask renders. What the model wrote is never quoted back to it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, get_type_hints

from ktdeval.errors import PluginError
from ktdeval.harness.chat_messages import ToolSpec
from ktdeval.harness.tools.arguments import (
    ArgumentType,
    ToolArgumentError,
    argument_type,
    holds_handle,
    read_argument,
)
from ktdeval.harness.tools.reading import is_no_arguments
from ktdeval.masking.lens import Lens
from ktdeval.masking.payload_types import Payload
from ktdeval.values.documents.strict_json import DoubledFieldError, JsonValue, Schema, loads_unique
from ktdeval.values.documents.typed_json import joined_lines
from ktdeval.values.misfit import near_matches


@dataclass(frozen=True, slots=True)
class ToolArgument:
    """One argument of a tool, compiled from its annotation."""

    name: str
    type: ArgumentType
    required: bool


@dataclass(frozen=True, slots=True)
class Tool:
    """Research tool: its description for the model, and the function behind it.

    Example:
        [argument.name for argument in tool(count_words).arguments]  # ['text']
    """

    name: str  #: the function's name
    description: str  #: the docstring without its `Args:` section
    parameters: Mapping[str, JsonValue]  #: JSON Schema of the arguments
    #: called as `function(context, **arguments)`, or as `function(context, arguments)` for a
    #: `json_tool`; returns a payload or a Refusal
    function: Callable[..., Payload | Refusal]
    #: the compiled arguments; None if the function reads the JSON object itself
    arguments: tuple[ToolArgument, ...] | None

    @property
    def spec(self) -> ToolSpec:
        """Return the tool as offered to a model."""
        return ToolSpec(self.name, self.description, self.parameters)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Refusal of a call, returned by the tool's function with its own feedback.

    Example:
        Refusal({"error": "there is no such page"}, "bad_arguments")
    """

    payload: Payload  #: the feedback
    failure: str  #: kind of failure that is counted, such as `bad_arguments`


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """Outcome of a call."""

    #: the function's result, or feedback that says what was wrong with the call; not yet masked
    payload: Payload
    #: `bad_json`, `bad_arguments`, `unknown_asset`, `unknown_day`, or None if the function ran
    failure: str | None = None
    unmask_attempts: int = 0  #: number of hidden identities found in the arguments
    #: the fault in the arguments; None for other outcomes
    complaint: ToolArgumentError | None = None


def tool(function: Callable[..., Payload | Refusal]) -> Tool:
    """Turn a typed function into a tool. The first parameter is the context, which the model never
    sees. Annotations may be str, int, float, bool, Literal of strings, AssetArg, DayArg, list[...]
    and dict[AssetArg | str, ...] of these, `... | None`, and Annotated with `Bounds` or `Length`.
    Defaults for handles must be columns or rows, not handles. Raises PluginError, which names the
    function and the parameter, if the signature can't be turned into a schema.

    Example:
        # def count_words(context, text: str): "Count the words of a text."
        tool(count_words).parameters["required"]  # ['text']
    """
    name = function.__name__
    description, lines = _split_docstring(function.__doc__ or "")
    if not description:
        raise PluginError(f"tool {name}: a docstring is missing; its text is what the model reads")

    properties: dict[str, JsonValue] = {}
    arguments = []
    for parameter, hint in _parameters(function):
        compiled = argument_type(hint, f"tool {name}: parameter {parameter.name}")
        schema = compiled.schema()
        if parameter.name in lines:
            schema["description"] = lines[parameter.name]

        # A default for a handle is a column or row, which means nothing to a model.
        if isinstance(parameter.default, (str, int, float)) and not holds_handle(hint):
            schema["default"] = parameter.default

        properties[parameter.name] = schema
        is_required = parameter.default is parameter.empty
        arguments.append(ToolArgument(parameter.name, compiled, is_required))

    for described in lines:
        if described not in properties:
            raise PluginError(
                f"tool {name}: its docstring describes {described!r}, which is not a"
                f" parameter{near_matches(described, properties)}"
            )

    parameters: Schema = {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }
    required = [argument.name for argument in arguments if argument.required]
    if required:
        parameters["required"] = required

    return Tool(name, description, parameters, function, tuple(arguments))


def json_tool(
    name: str,
    description: str,
    parameters: Mapping[str, JsonValue],
    function: Callable[..., Payload | Refusal],
) -> Tool:
    """Return a tool with an explicit JSON Schema, for arguments that no signature can describe,
    such as the arguments of a service.

    `name` may contain letters, digits, `_` and `-`. `description` is what the model reads, and
    `parameters` is the JSON Schema of the arguments. `function` is called as `function(context,
    arguments)` with the JSON object as the model wrote it, which it must validate; it returns a
    payload or a Refusal. Raises PluginError if providers reject the name, or if the description is
    empty.
    """
    if not _PLAIN_NAME.fullmatch(name):
        raise PluginError(f"tool {name[:64]!r}: a name has up to 64 letters, digits, _ and -")
    if not description:
        raise PluginError(
            f"tool {name}: a description is missing; its text is what the model reads"
        )
    return Tool(name, description, parameters, function, None)


def _parameters(function: Callable[..., Payload | Refusal]) -> list[tuple[inspect.Parameter, Any]]:
    name = function.__name__
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters:
        raise PluginError(f"tool {name}: the first parameter must be the context")

    for parameter in parameters[1:]:
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise PluginError(f"tool {name}: parameter {parameter.name}: must be a named parameter")
        if parameter.annotation is parameter.empty:
            raise PluginError(f"tool {name}: parameter {parameter.name}: an annotation is missing")

    # The annotation of the context is left out, since its type may be imported for type checkers
    # only.
    annotations = {parameter.name: parameter.annotation for parameter in parameters[1:]}
    holder = SimpleNamespace(__annotations__=annotations)
    names = getattr(function, "__globals__", {})
    try:
        hints = get_type_hints(holder, globalns=names, include_extras=True)
    except NameError as error:
        raise PluginError(
            f"tool {name}: an annotation can't be resolved: {error}; import it outside"
            " TYPE_CHECKING"
        ) from error

    return [(parameter, hints[parameter.name]) for parameter in parameters[1:]]


def call(tool: Tool, context: Any, arguments_text: str, lens: Lens) -> ToolOutcome:
    """Run a tool with arguments as a model wrote them. Any text yields an outcome. `context` is
    passed to the tool's function. `arguments_text` is raw JSON text, which is read as `{}` if it
    has no arguments (`is_no_arguments`). `lens` translates handles.
    """
    attempts = 0
    try:
        arguments = _arguments_in(arguments_text)
        attempts = sum(lens.is_hidden_identity(text) for text in _nested_texts(arguments))
        if tool.arguments is None:
            result = tool.function(context, arguments)
        else:
            result = tool.function(context, **_convert_all(tool.arguments, arguments, lens))
    except ToolArgumentError as error:
        return ToolOutcome(error.payload, error.kind, attempts, error)

    if isinstance(result, Refusal):
        return ToolOutcome(result.payload, result.failure, attempts)

    return ToolOutcome(result, None, attempts)


def _arguments_in(text: str) -> dict[str, JsonValue]:
    """Return the arguments in a text. Raises ToolArgumentError unless it is one JSON object."""
    try:
        arguments = {} if is_no_arguments(text) else loads_unique(text)
    except DoubledFieldError:
        rule = "each field once in an object"
    except ValueError:
        rule = "one JSON object, without NaN or Infinity"
    else:
        if isinstance(arguments, dict):
            return arguments
        raise ToolArgumentError("arguments", "one JSON object")

    raise ToolArgumentError("arguments", rule, "bad_json")


def _convert_all(
    declared: tuple[ToolArgument, ...], values: Mapping[str, JsonValue], lens: Lens
) -> dict[str, Any]:
    by_name = {argument.name: argument for argument in declared}
    for name in values:
        if name not in by_name:
            names = ", ".join(by_name) or "none"
            raise ToolArgumentError(
                "(unknown)", f"only these arguments: {names}{near_matches(name[:100], by_name)}"
            )

    arguments: dict[str, Any] = {}
    for argument in declared:
        if argument.name in values:
            value = values[argument.name]
            arguments[argument.name] = read_argument(argument.type, value, lens, argument.name)
        elif argument.required:
            raise ToolArgumentError(argument.name, "a value: this argument is required")

    return arguments


def _nested_texts(value: JsonValue) -> Iterator[str]:
    """Yield every string in a JSON value, including keys, since a model may use a hidden identity
    in any of them.
    """
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            yield from item
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)


_PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ARGUMENT_LINE = re.compile(r"(\w+):\s*(.+)")


def _split_docstring(docstring: str) -> tuple[str, dict[str, str]]:
    """Return the description, and the text for each argument in the `Args:` section.

    Lines of a paragraph are joined, so that re-wrapping the source does not change a prompt.
    """
    lines = inspect.cleandoc(docstring).splitlines()
    heading = lines.index("Args:") if "Args:" in lines else len(lines)
    descriptions: dict[str, str] = {}
    current = ""

    for line in lines[heading + 1 :]:
        is_next_section = line and not line.startswith(" ")
        if is_next_section:
            break

        text = line.strip()
        is_first_line = line.startswith("    ") and not line.startswith("     ")
        match = _ARGUMENT_LINE.fullmatch(text)
        if match and is_first_line:
            current = match[1]
            descriptions[current] = match[2]
        elif text and current:
            descriptions[current] += f" {text}"

    return joined_lines("\n".join(lines[:heading])), descriptions
