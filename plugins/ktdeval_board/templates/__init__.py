"""Templates of pages and files: Jinja2, with every value of HTML escaped and an unknown name an error."""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment


def render(name: str, /, **values: Any) -> str:
    """Fill in a template of this folder."""
    return _environment().get_template(name).render(**values)


@functools.cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

    environment = Environment(
        loader=PackageLoader("ktdeval_board", "templates"),
        autoescape=select_autoescape(["html"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    # A JSON scalar is a YAML scalar.
    environment.filters["scalar"] = lambda value: json.dumps(value, ensure_ascii=False)
    return environment
