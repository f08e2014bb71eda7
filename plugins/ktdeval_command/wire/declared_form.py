"""Declarations of a wire format in a file in `forms`: refused fields, settings that are passed to
the model, statuses of errors, and templates of answers, in which `$name` is replaced by a value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ktdeval.harness import Usage
from ktdeval.values import load_yaml
from ktdeval_command.wire.refusals import WireRefusal

_FORMS = Path(__file__).parent / "forms"
_VALUE = re.compile(r"\$([a-z]+)(?:\.([a-z_]+))?")  # a value, or a field of a value


class DeclaredForm:
    """Declarations of one format."""

    def __init__(self, name: str) -> None:
        """Read the form `name`, such as `gemini`."""
        self.parts: Mapping[str, Any] = load_yaml(_FORMS / f"{name}.yaml")

    def fill(self, part: str, /, **values: Any) -> dict[str, Any]:
        """Return a template filled with values."""
        filled: dict[str, Any] = fill_template(self.parts[part], values)
        return filled

    def usage(self, usage: Usage) -> dict[str, Any]:
        """Return token counts under the names that the format uses."""
        cached = usage.cache_read_tokens + usage.cache_write_tokens
        return self.fill(
            "usage",
            usage=usage,
            total=usage.input_tokens + usage.output_tokens,
            uncached=max(usage.input_tokens - cached, 0),
            answered=max(usage.output_tokens - usage.reasoning_tokens, 0),
        )

    def error(self, refusal: WireRefusal) -> tuple[int, dict[str, Any]]:
        """Return the HTTP status and the body of a refusal."""
        words = self.parts["errors"][refusal.kind]
        message = words.get("before", "") + refusal.message
        body = self.fill("error", message=message, field=refusal.field or None, **words)
        return words["status"], body

    def models(self, name: str) -> dict[str, Any]:
        """Return a listing of one model."""
        return self.fill("models", name=name, model=self.fill("model", name=name))


def fill_template(template: Any, values: Mapping[str, Any]) -> Any:
    """Return a template with its names replaced by values. A string that consists of a single name
    becomes the value itself.
    """
    if isinstance(template, Mapping):
        return {name: fill_template(inner, values) for name, inner in template.items()}
    if isinstance(template, list):
        return [fill_template(inner, values) for inner in template]
    if not isinstance(template, str):
        return template

    whole = _VALUE.fullmatch(template)
    if whole is not None:
        return _value_of(whole, values)
    return _VALUE.sub(lambda found: str(_value_of(found, values)), template)


def _value_of(found: re.Match[str], values: Mapping[str, Any]) -> Any:
    value = values[found[1]]
    return getattr(value, found[2]) if found[2] else value


@cache
def declared_form(name: str) -> DeclaredForm:
    """Return the declarations of a format."""
    return DeclaredForm(name)
