"""Options of a dataclass as text: what `help(ktdeval.evaluate)` lists."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Collection
from typing import Any

_WIDTH = 96  # columns
_HANGING = "    "
#: Names of types that only ktdeval has, and what a caller gives
_GIVEN_AS = {"Parameters": "dict", "Address": "str"}


def described_options(kind: type[Any], without: Collection[str] = ()) -> str:
    """Return a line or more for each field of a dataclass of options: name, type as annotated,
    default, help.

    `without`: names of fields to leave out. Fields are those that `option` made.
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
