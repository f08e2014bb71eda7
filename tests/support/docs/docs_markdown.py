"""Markdown as the generated pages of the documentation are written."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ktdeval.cli.terminal_tables import param_json
from ktdeval.values import dumps_pretty

MADE = "<!-- Made by `make docs`; change what it describes, not this page. -->"


def page(title: str, *parts: str) -> str:
    """Return a generated page: title, the note that it is generated, its parts."""
    return "\n\n".join([f"# {title}", MADE, *(part.strip() for part in parts if part)]) + "\n"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; empty without rows."""
    lines = [_row(header), "|" + "---|" * len(header)]
    body = [_row(row) for row in rows]
    return "\n".join(lines + body) if body else ""


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell_text(cell) for cell in cells) + " |"


def cell_text(text: str) -> str:
    """Return a text on one line, with nothing that ends a cell of a table."""
    line = " ".join(str(text).split())
    return re.sub(r"(?<!\\)\|", r"\\|", line)


def code(text: object) -> str:
    """Return a text as code."""
    return f"`{text}`"


def plain_text(text: str) -> str:
    """Return a help text without what Markdown would read as HTML or as emphasis."""
    parts = re.split(r"(`[^`]*`)", text)
    for index, part in enumerate(parts):
        if not part.startswith("`"):
            parts[index] = re.sub(r"([<>*\[\]])", r"\\\1", part)

    return "".join(parts)


def value_text(value: Any) -> str:
    """Return a default as it is written in YAML, empty for None."""
    if value is None or value in ((), [], {}):
        return ""

    if isinstance(value, (str, Path)):
        return code(value)

    if dataclasses.is_dataclass(value):
        return "its own"

    if isinstance(value, (bool, int, float)):
        return code(json.dumps(value))

    return code(" ".join(dumps_pretty(value).split()))


def bounds_text(field: dataclasses.Field[Any]) -> str:
    """Return the range of a field in words, empty without one."""
    low = field.metadata.get("minimum")
    high = field.metadata.get("maximum")

    if low is None and high is None:
        return ""

    lowest = "" if low is None else f"{low:g}"
    highest = "" if high is None else f"{high:g}"

    return f"{lowest} … {highest}".strip()


#: Head of a table of fields
FIELDS_HEAD = ("field", "type", "default", "range", "meaning")


def fields_table(fields: Iterable[dataclasses.Field[Any]]) -> str:
    """Return a table of the fields of a config or of parameters."""
    return table(FIELDS_HEAD, fields_rows(fields))


def fields_rows(fields: Iterable[dataclasses.Field[Any]]) -> list[tuple[str, ...]]:
    """Return the rows of a table of fields."""
    rows: list[tuple[str, ...]] = []
    for field in fields:
        param = param_json(field)
        default = "required" if param["required"] else value_text(param["default"])
        rows.append(
            (
                code(param["name"]),
                code(str(param["type"]).replace("|", "or")),
                default,
                bounds_text(field),
                plain_text(param["help"]),
            )
        )

    return rows
