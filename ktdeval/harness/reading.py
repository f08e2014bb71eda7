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
    """Whether a call has no arguments: no text, or an empty one in quotes."""
    return text.strip() in ("", '""')


def label_key(label: str) -> str:
    """Return the same key for all spellings of an asset's label that tasks accept: `Asset_0042` is
    `asset_0042`, and sh600519 is 600519.SH.
    """
    text = normalise(label).strip()
    code = parse_code(text)
    return (code or text).lower()
