"""Values at paths in JSON, the metadata of records, and the fills that records list."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ktdeval.values import JsonValue, loads_untrusted
from ktdeval_audit.log_files import MAX_LEVELS
from ktdeval_audit.log_types import LogFill

_FILL_LISTS = ("fills", "trades", "executions", "filled_orders")
_PRICES = ("price", "fill_price", "avg_price", "executed_price", "filled_price")
_FILL_DAYS = ("day", "date", "filled_on", "fill_date", "filled_at", "timestamp", "time")
_CODES = ("code", "symbol", "ticker", "stock_id", "asset", "instrument")
_NOT_METADATA = {
    "messages",
    "message",
    "content",
    "parts",
    "text",
    "value",
    "prompt",
    "response",
    "choices",
    "output",
    "outputs",
}
_DEEPEST = 4  # maximum depth to which metadata are read
_LONGEST_FIELD = 300


def values_at(value: JsonValue, path: str) -> Iterator[JsonValue]:
    """Yield the values at a dotted path. A list on the path is expanded into its items."""
    if not path:
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from values_at(item, path)
    elif isinstance(value, Mapping):
        if path in value:
            yield value[path]
            return

        head, _, rest = path.partition(".")
        if rest and head in value:
            yield from values_at(value[head], rest)


def first_at(value: JsonValue, paths: Sequence[str]) -> JsonValue:
    """Return the first nonempty value at any of these paths, or None if all values are empty."""
    for path in paths:
        for found in values_at(value, path):
            if found not in (None, "", [], {}):
                return found
    return None


def parse_text(value: JsonValue) -> JsonValue:
    """Return the JSON value in a string, or the value itself if it is not a string that contains
    JSON.
    """
    if not isinstance(value, str) or not value.lstrip().startswith(("{", "[", '"')):
        return value
    try:
        return parse_text(loads_untrusted(value, MAX_LEVELS))
    except ValueError:
        return value


def text_paths(value: JsonValue, prefix: str = "", level: int = 0) -> dict[str, str]:
    """Return the dotted paths to an object's strings, numbers and lists of objects, each with the
    kind of value.
    """
    paths: dict[str, str] = {}
    if not isinstance(value, Mapping) or level >= _DEEPEST:
        return paths

    for key, item in value.items():
        path = f"{prefix}{key}"
        if isinstance(item, Mapping):
            paths |= text_paths(item, f"{path}.", level + 1)
        elif isinstance(item, list) and item and isinstance(item[0], Mapping):
            paths[path] = "objects"
        else:
            paths[path] = "text" if isinstance(item, str) else "number"
    return paths


def flat_fields(value: JsonValue, prefix: str = "", level: int = 0) -> dict[str, JsonValue]:
    """Return an object's short strings and numbers by dotted name, excluding its messages."""
    fields: dict[str, JsonValue] = {}
    if not isinstance(value, Mapping) or level >= _DEEPEST:
        return fields

    for key, item in value.items():
        if key in _NOT_METADATA:
            continue

        name = f"{prefix}{key}"
        if isinstance(item, Mapping):
            fields |= flat_fields(item, f"{name}.", level + 1)
        elif isinstance(item, int | float) or (
            isinstance(item, str) and len(item) <= _LONGEST_FIELD
        ):
            fields[name] = item

    return fields


def recorded_fills(value: JsonValue, place: str, line: int | None) -> Iterator[LogFill]:
    """Yield the fills that are listed in an object or in objects nested in it. A fill has a price,
    and can have a code and a day.
    """
    if not isinstance(value, Mapping):
        return

    for name, item in value.items():
        if isinstance(item, Mapping):
            yield from recorded_fills(item, f"{place}.{name}", line)
        elif name in _FILL_LISTS and isinstance(item, list):
            for number, fill in enumerate(item):
                if isinstance(fill, Mapping):
                    yield from _fill(fill, f"{place}.{name}[{number}]", line)


def _fill(fill: Mapping[str, JsonValue], place: str, line: int | None) -> Iterator[LogFill]:
    price = _first(fill, _PRICES)
    if isinstance(price, bool) or not isinstance(price, int | float):
        return

    decimals = repr(float(price)).partition(".")[2]
    day = _first(fill, _FILL_DAYS)
    code = _first(fill, _CODES)
    yield LogFill(
        price=float(price),
        digits=len(decimals.rstrip("0")),
        code=code if isinstance(code, str) else "",
        day=day[:10] if isinstance(day, str) else "",
        place=place,
        line=line,
    )


def _first(fill: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next((fill[name] for name in names if name in fill), None)
