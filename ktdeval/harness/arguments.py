"""Arguments of a tool: handles that a model writes, as columns and rows of the snapshot that the
function gets. Everything else of an argument is a kind of value (`ktdeval.values.kinds`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

from ktdeval.errors import KtdevalError, PluginError
from ktdeval.masking.lens import Lens
from ktdeval.values.class_fields import field_kind
from ktdeval.values.kinds import (
    Bounds as Bounds,
    Kind,
    Length as Length,
    NoSchemaError,
    Reading,
    Schema,
)
from ktdeval.values.misfit import Misfit
from ktdeval.values.strict_json import JsonValue


@dataclass(frozen=True, slots=True)
class HandleKind(Kind):
    """Marks an argument that the model writes as a handle and the function gets as a column or
    row.
    """

    kind: Literal["asset", "day"]
    words = "a handle"

    def fits(self, value: object) -> bool:
        """Whether a value is a column or a row."""
        return isinstance(value, int)

    def read(self, value: JsonValue, where: str, reading: Reading) -> int:
        """Return the column or row of a handle, as the lens of the reading shows it."""
        lens: Lens = reading.context
        text = value if isinstance(value, str) else ""
        if self.kind == "asset":
            found = lens.parse_asset(text)
            expected = "a stock_id exactly as it was shown to you"
        else:
            found = lens.parse_day(text)
            expected = "a trading day exactly as it was shown to you"

        if found is None:
            raise ToolArgumentError(where, expected, f"unknown_{self.kind}")

        return found

    def schema(self) -> Schema:
        """Return the JSON Schema."""
        return {"type": "string"}


AssetArg = Annotated[int, HandleKind("asset")]
"""A handle of an asset in the call, its snapshot column in the function. May stand inside list[...]
and as key of dict[...].
"""
#: A handle of a trading day in the call, its snapshot row in the function
DayArg = Annotated[int, HandleKind("day")]


class ToolArgumentError(KtdevalError):
    """An argument (with its path: `stock_ids[2]`) is unusable: feedback to the model, so it must
    quote no identity.
    """

    def __init__(self, argument: str, expected: str, kind: str = "bad_arguments") -> None:
        super().__init__(f"argument {argument}: expected {expected}")
        self.argument = argument
        self.expected = expected
        self.kind = kind


def argument_kind(hint: Any, where: str) -> Kind:
    """Return the kind of an annotation. Raises PluginError where it has no JSON Schema."""
    kind = field_kind(hint)
    try:
        kind.schema()
    except NoSchemaError as error:
        raise PluginError(
            f"{where}: annotation {hint!r} has no JSON Schema ({error}); use str, int, float, bool,"
            " Literal, AssetArg, list or dict"
        ) from error

    return kind


def read_argument(kind: Kind, value: JsonValue, lens: Lens, where: str) -> Any:
    """Return the function's argument. Raises ToolArgumentError: the value does not fit."""
    # What the model wrote may be an identity that the mask hides: no error quotes it.
    reading = Reading(takes_whole_floats=True, quotes=False, context=lens)
    try:
        return kind.read(value, where, reading)
    except Misfit as problem:
        raise ToolArgumentError(problem.where, problem.expected + problem.near) from problem


def holds_handle(hint: Any) -> bool:
    """Whether an annotation holds an AssetArg or DayArg."""
    return any(isinstance(part, HandleKind) or holds_handle(part) for part in get_args(hint))
