"""Options of a dataclass as text: what `help(ktdeval.evaluate)` lists."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Collection, Iterator, Mapping
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from ktdeval.values.secret_free_addresses import Address, Parameters

_WIDTH = 96  # columns
_HANGING = "    "


def described_options(kind: type[Any], without: Collection[str] = ()) -> str:
    """Return a line or more for each field of a dataclass of options: name, type, default, help.

    `without`: names of fields to leave out. Fields are those that `option` made.
    """
    hints = get_type_hints(kind)
    lines = []
    for field in dataclasses.fields(kind):
        if field.name in without:
            continue

        facts = ", ".join(_facts(field, hints[field.name]))
        text = f"{field.name} ({facts}): {field.metadata['help']}"
        lines += textwrap.wrap(text, _WIDTH, subsequent_indent=_HANGING, break_on_hyphens=False)

    return "\n".join(lines)


def _facts(field: dataclasses.Field[Any], hint: Any) -> Iterator[str]:
    """Yield the type of an option, and its default where the help does not say it."""
    yield type_text(hint)
    if field.default not in (dataclasses.MISSING, None, ()):
        yield f"default {field.default!r}"


def type_text(hint: Any) -> str:
    """Return a type as readers of Python write it: `str`, `int or None`, `'strict' or 'paper'`."""
    if hint == Parameters:
        return "dict"
    if hint == Address:
        return "str"

    kind = get_origin(hint)
    if kind is Literal:
        return " or ".join(repr(value) for value in get_args(hint))
    if kind in (Union, UnionType):
        return " or ".join(_unique(type_text(each) for each in get_args(hint)))
    if kind is tuple:
        return f"one or more {type_text(get_args(hint)[0])}"
    if isinstance(kind, type) and issubclass(kind, Mapping):
        return "dict"
    return "None" if hint is type(None) else getattr(hint, "__name__", str(hint))


def _unique(texts: Iterator[str]) -> list[str]:
    return list(dict.fromkeys(texts))
