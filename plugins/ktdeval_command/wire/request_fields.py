"""Fields of a request, read strictly. A value of the wrong type is refused with the field's path,
and ignored fields are named.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, NoReturn, TypeVar

from ktdeval.values import JsonObject, JsonValue, loads_untrusted
from ktdeval_command.wire.refusals import WireError, one_line

MAX_LEVELS = 150  #: maximum depth of a request's JSON, including tool schemas in it
MAX_NAME_CHARS = 200  #: maximum characters in the name of a model or tool, or in an id
MAX_IGNORED = 200  #: maximum number of ignored fields that are listed

SWITCH_OFF = "; switch other tools off in the program's settings"

T = TypeVar("T")
_NOUNS: Mapping[type, str] = {
    bool: "a boolean",
    int: "a number",
    float: "a number",
    str: "a text",
    list: "a list",
    dict: "an object",
}
# fields of a text part that are empty if the bridge wrote the part
_GIVEN_MARKS = ("annotations", "logprobs")
_INDEX = re.compile(r"\[\d+\]")
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_LONE = re.compile("[\ud800-\udfff]")


class Fields:
    """Fields of one object in a request. A null field is treated as absent, as in the providers'
    own APIs.
    """

    def __init__(self, value: JsonValue, where: str, ignored: dict[str, None]) -> None:
        """Read an object. `where`: its path; empty for the request. `ignored`: collects the paths
        of ignored fields, without indices. Raises WireError if the value is not an object.
        """
        self.where = where
        self.ignored = ignored
        if not isinstance(value, Mapping):
            raise WireError(
                "bad_request",
                f"{where or 'the body'}: expected an object, was {_noun(value)}",
                where,
            )

        self._left: dict[str, Any] = {}
        for name, member in value.items():
            if member is not None:
                self._left[name] = member

    def path(self, name: str) -> str:
        """Return the path of a field."""
        return f"{self.where}.{name}" if self.where else name

    def wrong(self, name: str, expected: str) -> NoReturn:
        """Raise WireError for a field whose value is not as expected."""
        path = self.path(name)
        raise WireError("bad_request", f"{path}: expected {expected}", path)

    def refuse_field(self, name: str, supported: str) -> NoReturn:
        """Raise WireError for a field that the bridge can't carry."""
        path = self.path(name)
        raise WireError(
            "unsupported", f"{path} is not supported by this bridge; supported: {supported}", path
        )

    def kind(self, supported: Collection[str], default: str | None = None, advice: str = "") -> str:
        """Take the field `type`. Raises WireError if it is absent or not supported; `advice` is
        added to the message.
        """
        kind = self.text("type")
        if kind is None:
            kind = self._need_value("type", default, f"one of {', '.join(supported)}")
        if kind not in supported:
            raise WireError(
                "unsupported",
                f"{self.where} of type {kind[:80]!r} is not supported by this bridge; supported:"
                f" {', '.join(supported)}{advice}",
                self.where,
            )
        return kind

    def content(self, name: str, kinds: Collection[str], between: str = "\n\n") -> str:
        """Take a text, or a list of parts whose texts are joined; empty if absent. A part of type
        `refusal` has its text in the field `refusal`. Raises WireError if the type of a part is not
        in `kinds`, for example an image.
        """
        if isinstance(self._left.get(name), str):
            return self.needed_text(name)

        texts = []
        for part in self.objects(name):
            kind = part.kind(kinds)
            texts.append(part.needed_text("refusal" if kind == "refusal" else "text"))
            for mark in _GIVEN_MARKS:
                part.take(mark)
            part.ignore_rest()
        return between.join(texts)

    def needed_content(self, name: str, kinds: Collection[str]) -> str:
        """Take a required text, or a required list of parts with texts."""
        if not self.has(name):
            self.wrong(name, "a text or a list of parts, is missing")
        return self.content(name, kinds)

    def has(self, name: str) -> bool:
        """Return whether a field is present and not taken yet."""
        return name in self._left

    def names(self) -> list[str]:
        """Return the names of fields that are not taken yet."""
        return list(self._left)

    def peek(self, name: str) -> Any:
        """Return a field without taking it; None if absent."""
        return self._left.get(name)

    def take(self, name: str) -> Any:
        """Take a field unchanged; None if absent."""
        return self._left.pop(name, None)

    def _take_typed(self, name: str, kind: type[T], expected: str) -> T | None:
        """Take a value of the given type; None if absent."""
        value = self.take(name)
        if value is not None and not isinstance(value, kind):
            self.wrong(name, f"{expected}, was {_noun(value)}")
        return value

    def _need_value(self, name: str, value: T | None, expected: str) -> T:
        """Return a required value. Raises WireError if it is None."""
        if value is None:
            self.wrong(name, f"{expected}, is missing")
        return value

    def text(self, name: str) -> str | None:
        """Take a string; None if absent."""
        return self._take_typed(name, str, "a text")

    def needed_text(self, name: str) -> str:
        """Take a required string."""
        return self._need_value(name, self.text(name), "a text")

    def needed_name(self, name: str) -> str:
        """Take a required name or id: a short string that is not empty."""
        value = self.needed_text(name)
        if not 0 < len(value) <= MAX_NAME_CHARS:
            self.wrong(name, f"1 to {MAX_NAME_CHARS} characters, has {len(value)}")
        return value

    def word(self, name: str, words: Collection[str]) -> str | None:
        """Take one of several words; None if absent."""
        value = self.text(name)
        if value is not None and value not in words:
            self.wrong(name, f"one of {', '.join(words)}")
        return value

    def needed_word(self, name: str, words: Collection[str]) -> str:
        """Take a required field that is one of several words."""
        return self._need_value(name, self.word(name, words), f"one of {', '.join(words)}")

    def flag(self, name: str) -> bool:
        """Take a boolean; false if absent."""
        return bool(self._take_typed(name, bool, "true or false"))

    def count(self, name: str) -> int | None:
        """Take a whole number of at least 1; None if absent."""
        value = self.take(name)
        if value is None:
            return None
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            self.wrong(name, "a whole number of at least 1")
        return value

    def temperature(self, name: str) -> float | None:
        """Take a sampling temperature from 0 to 2; None if absent."""
        value = self.take(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 2:
            self.wrong(name, "a number from 0 to 2")
        return float(value)

    def objects(self, name: str) -> list[Fields]:
        """Take a list of objects; empty if absent."""
        found = []
        for index, item in enumerate(self._take_typed(name, list, "a list") or []):
            found.append(Fields(item, f"{self.path(name)}[{index}]", self.ignored))
        return found

    def child(self, name: str) -> Fields | None:
        """Take an object and return its fields; None if absent."""
        if not self.has(name):
            return None
        return Fields(self.take(name), self.path(name), self.ignored)

    def needed_child(self, name: str) -> Fields:
        """Take a required object and return its fields."""
        return self._need_value(name, self.child(name), "an object")

    def mapping(self, name: str) -> JsonObject | None:
        """Take an object unchanged, such as a JSON Schema; None if absent."""
        return self._take_typed(name, dict, "an object")

    def needed_schema(self, name: str) -> JsonObject:
        """Take a required JSON Schema."""
        return self._need_value(name, self.mapping(name), "a JSON Schema")

    def texts(self, name: str) -> tuple[str, ...]:
        """Take a string or a list of strings; empty if absent."""
        value = self.take(name)
        if value is None:
            return ()
        if isinstance(value, str):
            return (value,)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            self.wrong(name, "a text or a list of texts")
        return tuple(value)

    def ignore(self, name: str, as_what: str = "") -> None:
        """Record that a field, or a certain use of it (`as_what`), is accepted but has no effect."""
        if as_what or self.has(name):
            self.take(name)
            if len(self.ignored) < MAX_IGNORED:
                self.ignored[one_line(_INDEX.sub("", self.path(name)) + as_what)] = None

    def ignore_rest(self) -> None:
        """Ignore all fields that were not taken, and record their names."""
        for name in self.names():
            self.ignore(name)

    def refuse(self, uncarried: Mapping[str, str]) -> None:
        """Raise WireError if a field is present that the bridge can't carry. `uncarried` says for
        each such field what is supported instead. Empty values, false and 0 are accepted.
        """
        for name, supported in uncarried.items():
            if self.take(name):
                self.refuse_field(name, supported)


def request_fields(body: bytes) -> Fields:
    """Return the fields in a request's body. Raises WireError unless the body is one object of
    strict JSON in UTF-8.
    """
    return Fields(read_json(body), "", {})


def read_json(body: bytes) -> JsonValue:
    """Return the value of a body. Raises WireError if it is not strict JSON in UTF-8."""
    try:
        text = body.decode("utf-8")
        value = loads_untrusted(text, MAX_LEVELS)
    except UnicodeDecodeError:
        raise WireError("bad_request", "the body is not UTF-8") from None
    except ValueError as error:
        raise WireError("bad_request", f"the body is not strict JSON: {error}") from None

    # JSON may contain half of a surrogate pair, because programs that cut texts produce this.
    if _SURROGATE.search(body):
        value = _encodable(value)
    return value


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        return _LONE.sub("?", value)
    if isinstance(value, list):
        return [_encodable(item) for item in value]
    if isinstance(value, dict):
        return {_LONE.sub("?", name): _encodable(item) for name, item in value.items()}
    return value


def _noun(value: Any) -> str:
    return _NOUNS.get(type(value), "null")
