"""Checks on the nodes of a YAML document before values are built from them: tags, scalars, keys,
and repetition through aliases.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ktdeval.errors import ConfigError

# PyYAML implements YAML 1.1, which turns 2024-01-02 into a date, `no` into False, 1:30 into 90 and
# 010 into 8, and leaves 1e-3 as text. These are the decimal scalars of the YAML 1.2 core schema,
# which does none of this.
SCALARS: tuple[tuple[str, str, str | list[str]], ...] = (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("int", r"[-+]?[0-9]+", "-+0123456789"),
    (
        "float",
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?"
        r"|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        "-+0123456789.",
    ),
    ("merge", r"<<", "<"),
)

TAG = "tag:yaml.org,2002:"
MAX_DEPTH = 200
MAX_NODES = 1_000_000
"""Values of a document, each counted as often as aliases repeat it."""

TOO_DEEP = f"is nested more than {MAX_DEPTH} levels deep"

_PATTERNS = {name: re.compile(pattern) for name, pattern, _ in SCALARS}
_TAGS_OF_KIND = {
    "scalar": frozenset({"str", "bool", "null", "int", "float"}),
    "sequence": frozenset({"seq"}),
    "mapping": frozenset({"map"}),
}
_MERGE = f"{TAG}merge"


def check_nodes(root: Any) -> None:
    """Raise ConfigError, with the line number, if a document contains anything but plain YAML 1.2
    values.
    """
    _NodeWalk().measure(root)


def is_merge(key_node: Any) -> bool:
    """Return whether a key is `<<`, which merges the keys of another mapping."""
    return bool(key_node.tag == _MERGE)


def line_of(node: Any) -> str:
    """Return where a node begins, for an error message."""
    mark = node.start_mark
    return f"line {mark.line + 1}, column {mark.column + 1}"


class _NodeWalk:
    """Walk through the nodes of one document. A node to which aliases refer is visited once."""

    def __init__(self) -> None:
        self._sizes: dict[int, tuple[int, int]] = {}
        self._open: set[int] = set()

    def measure(self, node: Any) -> tuple[int, int]:
        """Return how many values a node contains and how deeply they are nested, with its aliases
        expanded.
        """
        known = self._sizes.get(id(node))
        if known is not None:
            return known

        # Since an alias refers to an earlier node, only an enclosing node can still be open.
        if id(node) in self._open:
            raise ConfigError(
                f"{line_of(node)}: not YAML: an alias is inside the value that it names, so it never ends"
            )

        self._open.add(id(node))
        size = 1
        depth = 0

        for child in _children(node):
            child_size, child_depth = self.measure(child)
            size += child_size
            depth = max(depth, child_depth + 1)
            _check_bounds(size, depth)

        self._open.remove(id(node))
        _check_tag(node)
        self._sizes[id(node)] = size, depth

        return size, depth


def _children(node: Any) -> list[Any]:
    """Return the direct children of a node, in document order."""
    if node.id == "sequence":
        return list(node.value)
    if node.id == "scalar":
        return []

    children = []
    for key_node, value_node in node.value:
        if not is_merge(key_node):
            children.append(key_node)

        children.append(value_node)

    return children


def _check_bounds(size: int, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise ConfigError(TOO_DEEP)
    if size > MAX_NODES:
        raise ConfigError(
            f"has more than {MAX_NODES:,} values, as its aliases repeat them; write out what is"
            " needed"
        )


def _check_tag(node: Any) -> None:
    """Raise ConfigError if a tag is not that of a plain value, or does not fit its value."""
    name = node.tag.removeprefix(TAG)
    if name not in _TAGS_OF_KIND[node.id] or not node.tag.startswith(TAG):
        raise ConfigError(f"{line_of(node)}: not YAML: {_tag_problem(node, name)}")

    if node.id != "scalar":
        return

    pattern = _PATTERNS.get(name)
    if pattern is not None and not pattern.fullmatch(node.value):
        shown = f"{node.value!r:.40}"
        raise ConfigError(
            f"{line_of(node)}: not YAML: !!{name} is given for {shown}, which is not such a value;"
            " leave the tag out"
        )


def _tag_problem(node: Any, name: str) -> str:
    if node.tag == _MERGE:
        return (
            "`<<` takes over the keys of another mapping and must be a key; as text, write it in"
            " quotes"
        )

    shown = f"!!{name}" if node.tag.startswith(TAG) else node.tag
    return (
        f"a {node.id} with the tag {shown:.60} is not read; leave the tag out (put text in quotes)"
    )


def checked_number(read: Callable[[str], Any]) -> Callable[[Any, Any], Any]:
    """Return a PyYAML constructor that reads a number, and reports the number's line if it can't be
    read.
    """

    def construct(_loader: Any, node: Any) -> Any:
        try:
            return read(node.value)
        except ValueError as error:
            raise ConfigError(f"{line_of(node)}: not YAML: {error}") from error

    return construct


def read_float(text: str) -> float:
    """Return a YAML float. Raises ValueError if the number is written as digits and is too large
    for a float.
    """
    number = float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
    if abs(number) == float("inf") and "inf" not in text.lower():
        raise ValueError(f"{text[:20]} is too large for a number")
    return number
