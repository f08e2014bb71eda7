"""Templates for a board's pages and files."""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, Any

from ktdeval_pages.page_templates import make_environment

if TYPE_CHECKING:
    from jinja2 import Environment


def render(name: str, /, **values: Any) -> str:
    """Render a template in this folder."""
    return _environment().get_template(name).render(**values)


@functools.cache
def _environment() -> Environment:
    environment = make_environment("ktdeval_board")
    # A JSON scalar is a YAML scalar.
    environment.filters["scalar"] = lambda value: json.dumps(value, ensure_ascii=False)
    return environment
