"""Descriptions of the options in a dataclass: what `help(ktdeval.evaluate)` lists."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Collection
from typing import Any

_WIDTH = 96  # columns
_HANGING = "    "
#: Type names that only ktdeval has, and what a caller passes
_GIVEN_AS = {"Parameters": "dict", "Address": "str"}


def described_options(kind: type[Any], without: Collection[str] = ()) -> str:
    """Return one or more lines for each field of an options dataclass: name, type as annotated,
    default, help.

    `without`: names of fields to omit. Fields must have been created by `option`.
    """
    lines = []
    for field in dataclasses.fields(kind):
        if field.name in without:
            continue

        facts = str(field.type)
        for name, given_as in _GIVEN_AS.items():
            facts = facts.replace(name, given_as)
        if field.default not in (dataclasses.MISSING, None, ()):
            facts += f", default {field.default!r}"

        text = f"{field.name} ({facts}): {field.metadata['help']}"
        lines += textwrap.wrap(text, _WIDTH, subsequent_indent=_HANGING, break_on_hyphens=False)

    return "\n".join(lines)
