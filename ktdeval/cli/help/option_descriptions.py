"""Descriptions of the options in a dataclass, as shown by `help(ktdeval.evaluate)`."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Collection
from typing import Any

_WIDTH = 96  # columns
_HANGING = "    "
#: names of types that only ktdeval has, and what a caller passes for them
_GIVEN_AS = {"Parameters": "dict", "Address": "str"}


def described_options(kind: type[Any], without: Collection[str] = ()) -> str:
    """Return one or more lines for each field of an options dataclass: its name, annotated type,
    default and help.

    `without`: names of fields to omit. The fields must have been created by `option`.
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
