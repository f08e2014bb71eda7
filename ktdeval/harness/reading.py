"""Reading of what a model wrote: JSON objects and labels of assets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ktdeval.market import parse_code
from ktdeval.masking import normalise
from ktdeval.observation.tables import as_object
from ktdeval.values.jsonio import loads_strict


def json_object(text: str) -> Mapping[str, Any]:
    """Return a text as a JSON object; empty if it is something else."""
    try:
        value = loads_strict(text)
    except ValueError:
        return {}
    return as_object(value)


def is_no_arguments(text: str) -> bool:
    """Whether a call has no arguments: a blank text, or JSON that says nothing, which servers write
    for an object without fields: null, or a blank text in quotes.
    """
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] == '"':
        text = text[1:-1].strip()
    return text in ("", "null")


def label_key(label: str) -> str:
    """Return the same key for all spellings of an asset's label that tasks accept: `Asset_0042` is
    `asset_0042`, and sh600519 is 600519.SH.
    """
    text = normalise(label).strip()
    code = parse_code(text)
    return (code or text).lower()
