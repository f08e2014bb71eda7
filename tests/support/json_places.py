"""Values of JSON by their place: all that there are, and a copy with another one."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

Place = tuple[str | int, ...]


def leaves(value: Any, path: Place = ()) -> Iterator[tuple[Place, Any]]:
    """Every scalar of a JSON value with its place, in the order of a file with sorted keys."""
    if isinstance(value, dict | list):
        for key, item in sorted(value.items()) if isinstance(value, dict) else enumerate(value):
            yield from leaves(item, (*path, key))
    else:
        yield path, value


def places(value: Any, path: Place = ()) -> Iterator[Place]:
    """Every place in a JSON value, from the outside in; objects and lists as a whole, too."""
    if path:
        yield path

    for key, item in (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    ):
        yield from places(item, (*path, key))


def texts_in(value: Any) -> Iterator[str]:
    """Every text in a JSON value, keys too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from value
        yield from texts_in(list(value.values()))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from texts_in(item)


def put(inside: Any, path: Place, new: Any) -> None:
    """Replace a value where it stands; `(removed)` takes it away."""
    for part in path[:-1]:
        inside = inside[part]

    if new == "(removed)":
        del inside[path[-1]]
    else:
        inside[path[-1]] = new


def with_value(value: Any, path: Place, new: Any) -> Any:
    """A copy with one value replaced or taken away."""
    changed = copy.deepcopy(value)
    put(changed, path, new)
    return changed


def put_all(inside: Any, values: Mapping[str, Any]) -> None:
    """Put values at dotted places: `episodes.0.seed`."""
    for place, new in values.items():
        parts = place.split(".")
        put(inside, tuple(int(part) if part.isdigit() else part for part in parts), new)
