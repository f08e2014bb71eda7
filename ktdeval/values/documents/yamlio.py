"""Strict, safe and fast YAML. Duplicate keys are errors. Scalars follow YAML 1.2, so that a date
stays a string and `no` is not a bool.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from ktdeval.errors import ConfigError, wrap_os_error
from ktdeval.values.disk.files import read_plain
from ktdeval.values.documents.strict_json import bounded_int
from ktdeval.values.documents.yaml_node_checks import (
    MAX_DEPTH,
    SCALARS,
    TAG,
    TOO_DEEP,
    check_nodes,
    checked_number,
    is_merge,
    read_float,
)

T = TypeVar("T")


@functools.cache
def _strict_loader() -> Any:
    """Return the loader class. It is built on first use, because most commands read no YAML and
    importing PyYAML takes time.
    """
    import yaml  # noqa: PLC0415

    # The C parser is ten times faster. Wheels include it, but some source builds of PyYAML do not.
    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class StrictLoader(base):  # type: ignore[misc]
        def construct_mapping(
            self, node: yaml.MappingNode, deep: bool = False
        ) -> dict[Hashable, Any]:
            _check_keys(self, node)
            mapping: dict[Hashable, Any] = super().construct_mapping(node, deep=deep)
            return mapping

        def construct_document(self, node: yaml.Node) -> Any:
            check_nodes(node)
            return self.construct_object(node, deep=True)

    StrictLoader.yaml_implicit_resolvers = {}
    for tag, pattern, first in SCALARS:
        StrictLoader.add_implicit_resolver(
            f"{TAG}{tag}", re.compile(rf"^(?:{pattern})$"), list(first)
        )

    StrictLoader.add_constructor(f"{TAG}int", checked_number(bounded_int))
    StrictLoader.add_constructor(f"{TAG}float", checked_number(read_float))
    return StrictLoader


def _check_keys(loader: Any, node: Any) -> None:
    seen: dict[str, int] = {}
    for key_node, _ in node.value:
        if is_merge(key_node):
            continue

        key = loader.construct_object(key_node, deep=True)
        line = key_node.start_mark.line + 1
        if not isinstance(key, str):
            raise ConfigError(f"line {line}: expected text as a key, was {key!r:.60}; quote it")
        if key in seen:
            raise ConfigError(
                f"line {line}: key {key!r:.60} was already given on line {seen[key]}; keep one of"
                " the two"
            )

        seen[key] = line


_SHALLOW = 2 * MAX_DEPTH
"""Fewest characters of a text that is nested too deeply."""


def _depth(text: str | bytes) -> int:
    """Return the maximum nesting depth of a document without recursion. Beyond some depth, the
    composer of the C parser would crash the process.
    """
    import yaml  # noqa: PLC0415 - see _strict_loader

    depth = deepest = 0
    for event in yaml.parse(text, Loader=_strict_loader()):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(
            event, yaml.CollectionEndEvent
        )
        deepest = max(deepest, depth)

    return deepest


def parse_yaml(text: str | bytes, where: str) -> dict[str, Any]:
    """Parse a YAML document that is one mapping. Raises ConfigError, with the line number, for
    faults such as a duplicate key or a key that is not a string.
    """
    import yaml  # noqa: PLC0415 - see _strict_loader

    try:
        if len(text) > _SHALLOW and _depth(text) > MAX_DEPTH:
            raise ConfigError(TOO_DEEP)

        value = yaml.load(text, Loader=_strict_loader())  # noqa: S506 - a subclass of the safe loader
    except yaml.MarkedYAMLError as error:
        # from 6.0.4 on, PyYAML has its own depth limit, which is above ours
        if "nesting depth" in (error.problem or ""):
            raise ConfigError(f"{where}: {TOO_DEEP}") from error

        mark = error.problem_mark or error.context_mark
        line = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise ConfigError(f"{where}: {line}not YAML: {error.problem or error.context}") from error
    except RecursionError as error:
        raise ConfigError(f"{where}: is nested too deeply") from error
    except yaml.reader.ReaderError as error:
        raise ConfigError(f"{where}: {_odd_character(error, text)}") from error
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigError(f"{where}: not YAML: {' '.join(str(error).split())}") from error
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error

    if not isinstance(value, dict):
        raise ConfigError(
            f"{where}: expected a mapping of fields, was"
            f" {'nothing' if value is None else type(value).__name__}"
        )

    return value


def _odd_character(error: Any, text: str | bytes) -> str:
    """Return a description of a byte or character in a document that YAML does not allow."""
    data = text.encode() if isinstance(text, str) else text
    line = data.count(b"\n", 0, error.position) + 1

    # PyYAML reports a byte or character as a number. The C parser reports a negative number if the
    # text ends early.
    code = error.character if isinstance(error.character, int) else ord(error.character)
    if "control" in error.reason or "special" in error.reason:
        problem = f"the character U+{code:04X} is not allowed; delete it"
    else:
        problem = "it is not UTF-8 text; save the file as UTF-8"

    return f"line {line}: not YAML: {problem}"


def load_yaml(path: Path | str) -> dict[str, Any]:
    """Read a YAML file that is one mapping. Raises ConfigError if the file is unreadable, and as
    `parse_yaml` does.
    """
    return parse_yaml(_read_yaml_file(path), str(path))


def load_yaml_as(path: Path | str, read: Callable[[Mapping[str, Any], str], T]) -> T:
    """Return the result of `read` for a YAML file, given its contents and its path as a string. The
    result is computed once per process for equal contents; it is shared and must not be modified.
    Raises as `load_yaml` does, and whatever `read` raises.
    """
    value: T = _read_once(_read_yaml_file(path), str(path), read)
    return value


@functools.lru_cache(maxsize=64)
def _read_once(text: bytes, where: str, read: Callable[[Mapping[str, Any], str], Any]) -> Any:
    return read(parse_yaml(text, where), where)


def _read_yaml_file(path: Path | str) -> bytes:
    with wrap_os_error(f"{path}: can't read", kind=ConfigError):
        return read_plain(Path(path))
