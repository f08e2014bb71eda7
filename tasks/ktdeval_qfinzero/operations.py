"""Operations: the name, arguments and answer of each call. Tools, HTTP routes and MCP tools are
made only from these.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Literal, cast, get_type_hints

import msgspec
from jsonschema import Draft202012Validator, ValidationError
from jsonschema.validators import extend

from ktdeval.errors import PluginError
from ktdeval.harness import in_words
from ktdeval.values import JsonValue, near_matches
from ktdeval_qfinzero.errors import ServiceError, invalid, not_found
from ktdeval_qfinzero.schemas import Arguments, AsOf, Schema, schema_of
from ktdeval_qfinzero.timestamps import moment_text

if TYPE_CHECKING:
    from ktdeval_qfinzero.client_workspace import Workspace

_DEEPEST = 32  #: Maximum nesting depth of arguments
_LONGEST_NAME = 40  #: Maximum number of characters that an error shows of a member's name
_EXACT_INTEGERS = 2**53  #: Floats of this size or more are not exact integers
#: Maximum number of bits in an integer; Python refuses to write much longer ones
_LONGEST_BITS = 1024
_AS_OF = "as_of_ts"
_PATH_PARAMETER = re.compile(r"\{(\w+)\}")

Plain = Mapping[str, JsonValue]
Method = Literal["GET", "POST", "DELETE"]
Handler = Callable[["Workspace", Plain], msgspec.Struct]


def plain_json(value: JsonValue) -> JsonValue:
    """Return a value as strict JSON: without NaN, infinity, lone surrogates or endless nesting.

    5.0 becomes the integer 5, since JSON and schemas treat the two as equal but Python does not.
    Raises ServiceError `invalid_argument`, which names the argument.
    """
    return _plain_value(value, "", _DEEPEST)


def _plain_value(value: JsonValue, where: str, depth: int) -> JsonValue:
    if depth == 0:
        raise invalid("arguments", f"nested more than {_DEEPEST} levels deep")

    if isinstance(value, Mapping):
        for name in value:
            _check_text(name, where)

        return {
            name: _plain_value(item, _inside(where, name), depth - 1)
            for name, item in value.items()
        }

    if isinstance(value, list):
        return [
            _plain_value(item, f"{where}[{number}]", depth - 1) for number, item in enumerate(value)
        ]

    if isinstance(value, str):
        _check_text(value, where)

    if isinstance(value, int) and value.bit_length() > _LONGEST_BITS:
        raise invalid(where or "arguments", "expected a number of fewer digits")

    if isinstance(value, float):
        if not math.isfinite(value):
            raise invalid(where or "arguments", "expected a number, not NaN or Infinity")

        return int(value) if abs(value) < _EXACT_INTEGERS and value.is_integer() else value

    return value


def _inside(where: str, name: str) -> str:
    """Return the path of a member, whatever its name, in one printable line."""
    label = (
        name if name.isprintable() and len(name) <= _LONGEST_NAME else ascii(name[:_LONGEST_NAME])
    )
    return f"{where}.{label}" if where else label


def _check_text(text: JsonValue, where: str) -> None:
    if not isinstance(text, str) or any("\ud800" <= character <= "\udfff" for character in text):
        raise invalid(where or "arguments", "expected text without halves of surrogate pairs")


def _matches(
    _validator: Draft202012Validator, pattern: str, text: JsonValue, _schema: JsonValue
) -> Iterator[ValidationError]:
    """Match JSON Schema patterns as ECMAScript does: `$` matches only the end of the string, not
    the position before a final line break.
    """
    if isinstance(text, str) and not re.search(re.sub(r"\$$", r"\\Z", pattern), text):
        yield ValidationError("does not match")


_ArgumentValidator: type[Draft202012Validator] = extend(  # type: ignore[no-untyped-call]  # jsonschema declares no types for it
    Draft202012Validator, {"pattern": _matches}
)


@dataclass(frozen=True)
class Operation:
    """One call to a service, with its HTTP route. Path parameters are among the arguments. Schemas
    are made from the types.
    """

    name: str  #: family, group and action, such as `UPQ.stock.daily`
    method: Method
    path: str
    summary: str  #: one-line summary, which models also read
    takes: type[Arguments]
    #: type of the answer; a field that is unset by default may be absent, and one that may be null
    #: says so
    gives: type[msgspec.Struct]
    #: called with a workspace and valid plain arguments, with defaults filled in; raises
    #: ServiceError
    handler: Handler
    changes: bool = False  #: whether the operation changes the workspace
    is_timed: bool = True  #: whether the answer begins with the clock's time, `as_of_ts`

    @property
    def family(self) -> str:
        """Service of the operation: `UPQ`, `ESP` or `PMB`."""
        return self.name.partition(".")[0]

    @property
    def wire_name(self) -> str:
        """Name without dots, for protocols that do not allow them: `upq_stock_daily`."""
        return self.name.replace(".", "_").lower()

    @property
    def path_parameters(self) -> tuple[str, ...]:
        """Arguments that are part of the path."""
        return tuple(_PATH_PARAMETER.findall(self.path))

    @cached_property
    def _takes(self) -> Schema:
        return schema_of(self.takes)

    @cached_property
    def properties(self) -> Mapping[str, Schema]:
        """JSON Schema of each argument, with its description and any default."""
        return cast("Mapping[str, Schema]", self._takes["properties"])

    @cached_property
    def required(self) -> tuple[str, ...]:
        """Names of the required arguments."""
        return tuple(cast("list[str]", self._takes.get("required", [])))

    @cached_property
    def parameters(self) -> dict[str, JsonValue]:
        """JSON Schema (draft 2020-12) of all arguments together."""
        properties = {name: dict(schema) for name, schema in self.properties.items()}
        return {
            "type": "object",
            "properties": properties,
            "required": list(self.required),
            "additionalProperties": False,
        }

    @cached_property
    def result(self) -> Schema:
        """JSON Schema of the answer."""
        schema = schema_of(self.gives)
        if not self.is_timed:
            return schema

        properties = cast("Schema", schema["properties"])
        required = cast("list[str]", schema.get("required", []))
        return {
            **schema,
            "properties": {_AS_OF: schema_of(AsOf), **properties},
            "required": [_AS_OF, *required],
        }

    @cached_property
    def _validator(self) -> Draft202012Validator:
        return _ArgumentValidator(self.parameters)

    def read(self, given: JsonValue) -> dict[str, JsonValue]:
        """Check arguments and fill in defaults. Raises ServiceError `invalid_argument`, which names
        the argument but quotes no value.
        """
        given = plain_json(given)
        if not isinstance(given, Mapping):
            raise invalid("arguments", "expected one JSON object")

        for name in given:
            if name not in self.properties:
                names = ", ".join(self.properties) or "none"
                raise invalid(
                    "arguments",
                    "only these are known:"
                    f" {names}{near_matches(str(name)[:100], self.properties)}",
                )

        errors = sorted(
            self._validator.iter_errors(dict(given)),
            key=lambda error: list(map(str, error.absolute_path)),
        )
        if errors:
            where = _argument_path(errors[0].absolute_path)
            raise invalid(where, _expectation(errors[0], where))

        defaults = {
            name: schema["default"]
            for name, schema in self.properties.items()
            if "default" in schema
        }
        return {**defaults, **given}

    def call(self, workspace: Workspace, given: JsonValue) -> JsonValue:
        """Run the operation with arguments as given, and return new plain JSON. Raises ServiceError
        if the service refuses the call.
        """
        answer = msgspec.to_builtins(self.handler(workspace, self.read(given)))
        return {_AS_OF: moment_text(workspace.clock.as_of_ns), **answer}


#: Part of a workspace on which a function acts, keyed by the type of its first argument
_PARTS: Final[Mapping[str, Callable[[Workspace], Any]]] = {
    "DatasetView": attrgetter("view"),
    "Engine": attrgetter("broker.engine"),
    "Workspace": lambda workspace: workspace,
}


def query(
    name: str, path: str, function: Callable[[Any, Any], msgspec.Struct], method: Method = "GET"
) -> Operation:
    """Make a read-only operation from a function.

    The function takes a part of the workspace (the data as known at the clock's time, the broker's
    engine, or the workspace itself) and its arguments. Its annotations select the part.
    """
    subject, takes, gives = get_type_hints(function).values()
    part = _PARTS[subject.__name__]

    def handler(workspace: Workspace, given: Plain) -> msgspec.Struct:
        return function(part(workspace), msgspec.convert(given, takes))

    return Operation(name, method, path, summary_of(function), takes, gives, handler)


def summary_of(function: Callable[..., object]) -> str:
    """Return the first paragraph of a docstring as one line. Models and documents show it."""
    return " ".join((function.__doc__ or "").strip().partition("\n\n")[0].split())


class Catalogue:
    """All operations, keyed by name. Raises PluginError if two have the same name, wire name or
    route.
    """

    def __init__(self, operations: Sequence[Operation]) -> None:
        self.operations = tuple(operations)
        self._by_name = {operation.name: operation for operation in operations}
        self._by_wire_name = {operation.wire_name: operation for operation in operations}
        routes = {(operation.method, operation.path) for operation in operations}
        if not len(self._by_name) == len(self._by_wire_name) == len(routes) == len(operations):
            raise PluginError("two operations of one catalogue have the same name or route")

    def find(self, name: str) -> Operation:
        """Return the operation with this name or wire name. Raises ServiceError `not_found` if
        it does not exist.
        """
        operation = self._by_name.get(name) or self._by_wire_name.get(name)
        if operation is None:
            raise not_found(
                "tool", f"there is no such tool{near_matches(name[:100], self._by_name)}"
            )
        return operation

    def call(self, workspace: Workspace, name: str, given: JsonValue) -> JsonValue:
        """Run an operation. Raises ServiceError if the service refuses the call."""
        return self.find(name).call(workspace, given)

    def answer(self, workspace: Workspace, name: str, given: JsonValue) -> JsonValue:
        """Run an operation as `call` does, but return a refusal as the error envelope."""
        try:
            return self.call(workspace, name, given)
        except ServiceError as error:
            return error.to_json()


def _argument_path(path: Sequence[str | int]) -> str:
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text or "arguments"


def _expectation(error: ValidationError, where: str) -> str:
    """Return the expected form of an argument, without quoting the wrong value."""
    keyword = str(error.validator)
    value = cast("Any", error.validator_value)
    schema = cast("Any", error.schema)

    if keyword == "required":
        given = cast("Mapping[str, Any]", error.instance)
        missing = ", ".join(f"`{name}`" for name in value if name not in given)
        return f"required and missing: {missing}"

    if keyword == "additionalProperties":
        return f"has a field that is not known; known are: {', '.join(schema['properties'])}"
    if keyword == "minProperties":
        return f"give at least {value} of: {', '.join(schema['properties'])}"

    return f"give `{where}` as {in_words(schema)}"
