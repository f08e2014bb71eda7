"""Kinds of values: text, numbers, lists and so on, as annotations are compiled to them.

A kind says in words what fits, gives the JSON Schema, reads a value that a file, a user or a model
wrote, and tells whether an object of a plugin fits as it is. `ktdeval.values.class_fields` compiles
annotations, and has the kind of objects with declared fields.

Marks in `Annotated[...]` narrow a kind: `Bounds` of numbers, `Length` of texts, lists and objects,
`Rule` for anything else. A mark that is a `Kind` itself replaces the kind of the annotation.
"""

from __future__ import annotations

import inspect
import math
import typing
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ktdeval.errors import KtdevalError
from ktdeval.values.misfit import Misfit, fits_64_bits, near_matches, shown

if typing.TYPE_CHECKING:
    from ktdeval.values.strict_json import JsonValue

Schema = dict[str, Any]  #: a JSON Schema, whose rules have values of many types


class NoSchemaError(TypeError):
    """A kind has no JSON Schema."""


# ---- how values are read, and marks of annotations


@dataclass(frozen=True, slots=True)
class Reading:
    """How values of one source are read."""

    #: 20.0 is the integer 20, as in JSON, which has one kind of number
    takes_whole_floats: bool = False
    #: whether errors may quote what was written: never in feedback to a model, for it may be an
    #: identity that a mask hides
    quotes: bool = True
    #: what marks need to read a value, such as the lens of an episode
    context: Any = None

    def misfit(self, where: str, expected: str, value: object, near: str = "") -> Misfit:
        """Return the error for a value that does not fit."""
        return Misfit(where, expected, shown(value) if self.quotes else "", near)


CONFIG = Reading()


@dataclass(frozen=True, slots=True)
class Bounds:
    """Smallest and largest value of a number, both included.

    Example:
        days: Annotated[int, Bounds(1, 30)] = 20
    """

    minimum: float | None = None
    maximum: float | None = None

    @property
    def words(self) -> str:
        """What fits, in words."""
        if self.maximum is None:
            return f"a value of at least {self.minimum}"
        if self.minimum is None:
            return f"a value of at most {self.maximum}"

        return f"a value from {self.minimum} to {self.maximum}"

    @property
    def schema(self) -> Schema:
        """Rules of JSON Schema."""
        return without_none({"minimum": self.minimum, "maximum": self.maximum})

    def includes(self, number: float) -> bool:
        """Whether a number lies within the bounds."""
        if self.minimum is not None and number < self.minimum:
            return False

        return self.maximum is None or number <= self.maximum


@dataclass(frozen=True, slots=True)
class Length:
    """Fewest and most items of a list or mapping, or characters of a text.

    Example:
        stock_ids: Annotated[list[AssetArg], Length(1, 30)]
    """

    minimum: int = 0
    maximum: int | None = None

    def includes(self, size: int) -> bool:
        """Whether so many items or characters are allowed."""
        if size < self.minimum:
            return False

        return self.maximum is None or size <= self.maximum


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule that a value must follow: its words, as an error line has them after `expected`, and
    its test.
    """

    words: str
    holds: Callable[[Any], bool]


# ---- kinds


class Kind(ABC):
    """A compiled annotation."""

    words: str  #: what fits, as an error line has it after `expected`
    plural: str = ""  #: what several are called; empty where nothing needs it

    @abstractmethod
    def fits(self, value: object) -> bool:
        """Whether a Python object is of this kind as it is."""

    @abstractmethod
    def read(self, value: JsonValue, where: str, reading: Reading) -> Any:
        """Return the value as the field has it (an int as a float, a list as a tuple). Raises
        Misfit, which `where` starts.
        """

    def schema(self) -> Schema:
        """Return the JSON Schema. Raises NoSchemaError: there is none."""
        raise NoSchemaError(self.words)

    def marked(self, mark: object) -> Kind:
        """Return this kind narrowed by a mark of an annotation; marks of others change nothing."""
        if isinstance(mark, Kind):
            return mark
        if isinstance(mark, Rule):
            return Ruled(self, mark)

        return self


class Anything(Kind):
    """Any value, unchanged."""

    words = "a value"

    def fits(self, value: object) -> bool:
        return True

    def read(self, value: JsonValue, where: str, reading: Reading) -> Any:
        return value


class Nothing(Kind):
    """None alone, `null` in files."""

    words = "null"

    def fits(self, value: object) -> bool:
        return value is None

    def read(self, value: JsonValue, where: str, reading: Reading) -> Any:
        if value is not None:
            raise reading.misfit(where, self.words, value)

    def schema(self) -> Schema:
        return {"type": "null"}


class Scalar(Kind):
    """A kind of JSON's own scalars."""

    python: ClassVar[type]
    json: ClassVar[str]

    def fits(self, value: object) -> bool:
        if isinstance(value, bool):
            return self.python is bool

        return isinstance(value, self.python)

    def read(self, value: JsonValue, where: str, reading: Reading) -> Any:
        if not self.fits(value):
            raise reading.misfit(where, self.words, value)

        return value

    def schema(self) -> Schema:
        return {"type": self.json}


class Text(Scalar):
    """A string."""

    words = "a string"
    python: ClassVar[type] = str
    json = "string"

    def marked(self, mark: object) -> Kind:
        return Sized(self, mark, "characters") if isinstance(mark, Length) else super().marked(mark)


class LocalText(Text):
    """Text of this machine alone, such as a path of the user's: it is used, and not recorded."""


class Boolean(Scalar):
    """True or false."""

    words = "true or false"
    python: ClassVar[type] = bool
    json = "boolean"


class Number(Scalar):
    """A finite number, within bounds."""

    words = "a number"
    python: ClassVar[type] = float
    json = "number"

    def __init__(self, bounds: Bounds = Bounds()) -> None:
        self.bounds = bounds

    def fits(self, value: object) -> bool:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return is_number and self.bounds.includes(typing.cast("float", value))

    def read(self, value: JsonValue, where: str, reading: Reading) -> Any:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise reading.misfit(where, self.words, value)

        try:
            number = float(value)
        except OverflowError:
            number = math.inf

        if math.isnan(number):
            raise reading.misfit(where, "a finite number", value)
        if math.isinf(number):  # 1e999 is legal JSON
            raise reading.misfit(where, "a number of ordinary size", value)

        self._check_bounds(number, where, reading)
        return number

    def _check_bounds(self, number: float, where: str, reading: Reading) -> None:
        if not self.bounds.includes(number):
            raise reading.misfit(where, self.bounds.words, number)

    def schema(self) -> Schema:
        return {**super().schema(), **self.bounds.schema}

    def marked(self, mark: object) -> Kind:
        return type(self)(mark) if isinstance(mark, Bounds) else super().marked(mark)


class Integer(Number):
    """An integer of 64 bits, within bounds."""

    words = "an integer"
    python: ClassVar[type] = int
    json = "integer"

    def fits(self, value: object) -> bool:
        return isinstance(value, int) and super().fits(value)

    def read(self, value: JsonValue, where: str, reading: Reading) -> Any:
        if reading.takes_whole_floats and isinstance(value, float) and value.is_integer():
            value = int(value)

        if isinstance(value, bool) or not isinstance(value, int):
            raise reading.misfit(where, self.words, value)

        self._check_bounds(value, where, reading)
        if not fits_64_bits(value):
            raise reading.misfit(where, "an integer of 64 bits", value)

        return value


class Choice(Kind):
    """One of several scalars."""

    def __init__(self, choices: tuple[Any, ...]) -> None:
        self.choices = choices
        names = [str(choice) or "''" for choice in choices]
        self.words = f"one of {', '.join(names)}"

    def fits(self, value: object) -> bool:
        return any(type(value) is type(choice) and value == choice for choice in self.choices)

    def read(self, value: JsonValue, where: str, reading: Reading) -> Any:
        if self.fits(value):
            return value

        near = near_matches(value, map(str, self.choices)) if isinstance(value, str) else ""
        raise reading.misfit(where, self.words, value, near)

    def schema(self) -> Schema:
        if not all(isinstance(choice, str) for choice in self.choices):
            raise NoSchemaError(self.words)

        return {"type": "string", "enum": list(self.choices)}


class Items(Kind):
    """A list, or in Python a tuple, of values of one kind."""

    def __init__(self, item: Kind, python: type[list[Any]] | type[tuple[Any, ...]]) -> None:
        self.item = item
        self.python = python
        self.words = "a list" if python is list else "a tuple"

    def fits(self, value: object) -> bool:
        return isinstance(value, self.python)

    def read(self, value: JsonValue, where: str, reading: Reading) -> Any:
        if not isinstance(value, list | tuple):
            raise reading.misfit(where, "a list", value)

        return self.python(
            self.item.read(each, f"{where}[{index}]", reading) for index, each in enumerate(value)
        )

    def schema(self) -> Schema:
        return {"type": "array", "items": self.item.schema()}

    def marked(self, mark: object) -> Kind:
        return Sized(self, mark, "items") if isinstance(mark, Length) else super().marked(mark)


class Table(Kind):
    """An object with values of one kind under names that are not known before."""

    def __init__(self, key: Kind, item: Kind) -> None:
        self.key = key
        self.item = item
        self.words = f"a mapping of {item.plural}" if item.plural else "a mapping"

    def fits(self, value: object) -> bool:
        return isinstance(value, Mapping) and all(map(self.item.fits, value.values()))

    def read(self, value: JsonValue, where: str, reading: Reading) -> Any:
        if not isinstance(value, Mapping):
            raise reading.misfit(where, "an object", value)

        result: dict[Any, Any] = {}
        for number, (name, member) in enumerate(value.items(), 1):
            key_where = where
            item_where = f"{where}.{name}"
            if not reading.quotes:
                key_where = f"{where} (key {number})"
                item_where = f"{where} (value {number})"

            key = self.key.read(name, key_where, reading)
            if key in result:  # one asset in two spellings
                raise reading.misfit(key_where, "each key once", name)

            result[key] = self.item.read(member, item_where, reading)

        return result

    def schema(self) -> Schema:
        if self.key.schema()["type"] != "string":
            raise NoSchemaError("keys of a dict must be strings")

        return {"type": "object", "additionalProperties": self.item.schema()}

    def marked(self, mark: object) -> Kind:
        return Sized(self, mark, "items") if isinstance(mark, Length) else super().marked(mark)


class Alternatives(Kind):
    """A value of one of several kinds; the first that takes it reads it."""

    def __init__(self, members: Sequence[Kind]) -> None:
        self.members = tuple(members)
        self.is_optional = any(isinstance(member, Nothing) for member in members)
        self.kinds = tuple(member for member in members if not isinstance(member, Nothing))
        self.words = " or ".join(member.words for member in self.kinds)
        if self.is_optional:
            self.words += " or None"

    def fits(self, value: object) -> bool:
        return any(member.fits(value) for member in self.members)

    def read(self, value: JsonValue, where: str, reading: Reading) -> Any:
        if value is None and self.is_optional:
            return None

        problems: list[Exception] = []
        for kind in self.kinds:
            try:
                return kind.read(value, where, reading)
            except (Misfit, KtdevalError) as problem:
                problems.append(problem)

        raise problems[0]

    def schema(self) -> Schema:
        if not self.is_optional or len(self.kinds) > 1:
            raise NoSchemaError(self.words)

        # A list of types, as providers take it, rather than `anyOf`.
        schema = self.kinds[0].schema()
        schema["type"] = [schema["type"], "null"]
        if "enum" in schema:
            schema["enum"] = [*schema["enum"], None]

        return schema

    def marked(self, mark: object) -> Kind:
        if isinstance(mark, Rule):
            return super().marked(mark)

        return Alternatives([member.marked(mark) for member in self.members])


class Sized(Kind):
    """A text, list or object of a limited length."""

    def __init__(self, inner: Kind, length: Length, unit: str) -> None:
        self.inner = inner
        self.length = length
        self.words = f"{length.minimum} or more {unit}"
        if length.maximum is not None:
            self.words = f"{length.minimum} to {length.maximum} {unit}"

    def fits(self, value: object) -> bool:
        return self.inner.fits(value) and self.length.includes(len(typing.cast("str", value)))

    def read(self, value: JsonValue, where: str, reading: Reading) -> Any:
        sized = self.inner.read(value, where, reading)
        if not self.length.includes(len(sized)):
            raise reading.misfit(where, self.words, value)

        return sized

    def schema(self) -> Schema:
        schema = self.inner.schema()
        least, most = _LENGTH_RULES[schema["type"]]
        limits = {least: self.length.minimum or None, most: self.length.maximum}
        return {**schema, **without_none(limits)}


_LENGTH_RULES = {
    "array": ("minItems", "maxItems"),
    "object": ("minProperties", "maxProperties"),
    "string": ("minLength", "maxLength"),
}


class Ruled(Kind):
    """A kind with a rule of its own."""

    def __init__(self, inner: Kind, rule: Rule) -> None:
        self.inner = inner
        self.rule = rule
        self.words = rule.words

    def fits(self, value: object) -> bool:
        return self.inner.fits(value) and self.rule.holds(value)

    def read(self, value: JsonValue, where: str, reading: Reading) -> Any:
        result = self.inner.read(value, where, reading)
        if not self.rule.holds(result):
            raise reading.misfit(where, self.words, value)

        return result

    def schema(self) -> Schema:
        return self.inner.schema()


def a_class(python: type) -> str:
    """Return a class's name with its article."""
    article = "an" if python.__name__[0] in "AEIOU" else "a"
    return f"{article} {python.__name__}"


def unmarked(kind: Kind) -> Iterator[Kind]:
    """Yield the kinds that a value may have, without marks and alternatives."""
    if isinstance(kind, Sized | Ruled):
        yield from unmarked(kind.inner)
    elif isinstance(kind, Alternatives):
        for member in kind.kinds:
            yield from unmarked(member)
    else:
        yield kind


class InstanceOf(Kind):
    """An object of a class."""

    def __init__(self, python: type) -> None:
        self.python = python
        self.words = a_class(python)
        self.plural = python.__name__

    def fits(self, value: object) -> bool:
        return isinstance(value, self.python)

    def read(self, value: JsonValue, where: str, reading: Reading) -> Any:
        if not self.fits(value):
            raise reading.misfit(where, self.words, value)

        return value


class Method(Kind):
    """A function, which can be called with certain arguments by position; any function where they
    are not known.
    """

    def __init__(self, arguments: Sequence[str] | None = None) -> None:
        self.arguments = arguments
        self.words = "a method"
        if arguments:
            self.words = f"a method of {', '.join(arguments)}"

    def fits(self, value: object) -> bool:
        if not callable(value):
            return False

        return self.arguments is None or not mismatch(value, self.arguments)

    def read(self, value: JsonValue, where: str, reading: Reading) -> Any:
        raise reading.misfit(where, self.words, value)


def mismatch(function: Callable[..., Any], arguments: Sequence[object]) -> str:
    """Return why a function can't be called with so many arguments, by position; empty if it can,
    or does not say what it takes.
    """
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError as error:
        return str(error)
    except ValueError:  # a function of C without a signature
        return ""

    return ""


def without_none(mapping: Mapping[str, JsonValue]) -> Schema:
    """Return the rules of a schema that are given."""
    return {name: value for name, value in mapping.items() if value is not None}
