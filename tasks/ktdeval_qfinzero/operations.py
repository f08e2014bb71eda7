"""Operations: what each call is named, takes and gives. Tools, HTTP routes and MCP tools are made from these, and only these."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from jsonschema import Draft202012Validator, ValidationError
from jsonschema.validators import extend

from ktdeval.api import JsonValue, PluginError, near_matches
from ktdeval_qfinzero.errors import ServiceError, invalid, not_found
from ktdeval_qfinzero.plain_json import plain_json

if TYPE_CHECKING:
    from ktdeval_qfinzero.workspace import Workspace

Schema = Mapping[str, JsonValue]
Arguments = Mapping[str, JsonValue]
Handler = Callable[["Workspace", Arguments], JsonValue]

_PATH_PARAMETER = re.compile(r"\{(\w+)\}")


def _matches(_validator: Draft202012Validator, pattern: str, text: JsonValue, _schema: JsonValue) -> Iterator[ValidationError]:
    """Patterns of JSON Schema are those of ECMAScript: their `$` is the end, not a line break before it."""
    if isinstance(text, str) and not re.search(re.sub(r"\$$", r"\\Z", pattern), text):
        yield ValidationError("does not match")


_ArgumentValidator: type[Draft202012Validator] = extend(  # type: ignore[no-untyped-call]  # jsonschema declares no types for it
    Draft202012Validator, {"pattern": _matches}
)


@dataclass(frozen=True)
class Operation:
    """One call of a service.

    Attributes:
        name: family, group and action, such as `UPQ.stock.daily`.
        method, path: of its HTTP route; the path's parameters are among `properties`.
        summary: one line, which a model reads too.
        properties: JSON Schema of each argument, with its description, and its default where it has one.
        required: arguments without which it can't be called.
        result: JSON Schema of what it gives.
        handler: called with a workspace and valid arguments, defaults filled in; raises ServiceError.
        changes: whether it changes the workspace.
    """

    name: str
    method: Literal["GET", "POST"]
    path: str
    summary: str
    properties: Mapping[str, Schema]
    required: tuple[str, ...]
    result: Schema
    handler: Handler
    changes: bool = False

    @property
    def family(self) -> str:
        """`UPQ`, `ESP` or `PMB`."""
        return self.name.partition(".")[0]

    @property
    def wire_name(self) -> str:
        """The name where dots are not allowed: `upq_stock_daily`."""
        return self.name.replace(".", "_").lower()

    @property
    def path_parameters(self) -> tuple[str, ...]:
        """Arguments that stand in the path."""
        return tuple(_PATH_PARAMETER.findall(self.path))

    @cached_property
    def parameters(self) -> dict[str, JsonValue]:
        """JSON Schema (draft 2020-12) of all arguments together."""
        return {
            "type": "object",
            "properties": {name: dict(schema) for name, schema in self.properties.items()},
            "required": list(self.required),
            "additionalProperties": False,
        }

    @cached_property
    def _validator(self) -> Draft202012Validator:
        return _ArgumentValidator(self.parameters)

    def read(self, given: JsonValue) -> dict[str, JsonValue]:
        """The arguments, checked, with defaults.

        Raises:
            ServiceError: `invalid_argument`, with the argument's place. What was written is not quoted.
        """
        given = plain_json(given)
        if not isinstance(given, Mapping):
            raise invalid("arguments", "expected one JSON object")
        for name in given:
            if name not in self.properties:
                names = ", ".join(self.properties) or "none"
                raise invalid("arguments", f"only these are known: {names}{near_matches(str(name)[:100], self.properties)}")
        if (
            error := next(
                iter(sorted(self._validator.iter_errors(dict(given)), key=lambda found: list(map(str, found.absolute_path)))), None
            )
        ) is not None:
            raise invalid(_place(error.absolute_path), _expectation(error))
        defaults = {name: schema["default"] for name, schema in self.properties.items() if "default" in schema}
        return {**defaults, **given}

    def call(self, workspace: Workspace, given: JsonValue) -> JsonValue:
        """Run it with arguments as somebody wrote them.

        Raises:
            ServiceError: what the service refuses.
        """
        return self.handler(workspace, self.read(given))


class Catalogue:
    """All operations, by name.

    Raises:
        PluginError: two have one name, wire name or route.
    """

    def __init__(self, operations: Sequence[Operation]) -> None:
        self.operations = tuple(operations)
        self._by_name = {operation.name: operation for operation in operations}
        self._by_wire_name = {operation.wire_name: operation for operation in operations}
        routes = {(operation.method, operation.path) for operation in operations}
        if not len(self._by_name) == len(self._by_wire_name) == len(routes) == len(operations):
            raise PluginError("two operations of one catalogue have the same name or route")

    def find(self, name: str) -> Operation:
        """An operation by either of its names.

        Raises:
            ServiceError: `not_found`.
        """
        found = self._by_name.get(name) or self._by_wire_name.get(name)
        if found is None:
            raise not_found("tool", f"there is no such tool{near_matches(name[:100], self._by_name)}")
        return found

    def call(self, workspace: Workspace, name: str, given: JsonValue) -> JsonValue:
        """Run an operation.

        Raises:
            ServiceError: what the service refuses.
        """
        return self.find(name).call(workspace, given)

    def answer(self, workspace: Workspace, name: str, given: JsonValue) -> JsonValue:
        """Like `call`, with a refusal as the error envelope."""
        try:
            return self.call(workspace, name, given)
        except ServiceError as error:
            return error.to_json()


def _place(path: Sequence[str | int]) -> str:
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text or "arguments"


def _expectation(error: object) -> str:
    """What would have been valid, in words, without the value that was not."""
    keyword, wanted = getattr(error, "validator", ""), getattr(error, "validator_value", None)
    if keyword == "required":
        missing = [name for name in wanted or () if name not in getattr(error, "instance", {})]
        return f"required and missing: {', '.join(missing)}"
    if keyword == "additionalProperties":
        known = ", ".join(getattr(error, "schema", {}).get("properties", {}))
        return f"has a field that is not known; known are: {known}"
    words = {"type": "expected type", "enum": "expected one of", "minimum": "expected at least", "maximum": "expected at most"}
    if keyword in words:
        shown = ", ".join(map(str, wanted)) if isinstance(wanted, list) else wanted
        return f"{words[keyword]} {shown}"
    return f"does not follow the schema: {keyword} {wanted if isinstance(wanted, str | int | float) else ''}".strip()
