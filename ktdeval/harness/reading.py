"""Reading of the figures in a prompt, for models and agents that use them: its JSON block, and the tables in it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ktdeval.jsonio import loads_strict
from ktdeval.market import parse_code
from ktdeval.masking import normalise

_JSON_BLOCK = re.compile(r"```json\s*\n(.*?)\n```", re.DOTALL)


def shown_state(text: str) -> Mapping[str, Any]:
    """Return the last JSON block of a prompt; empty where there is none, or where it is no object."""
    blocks = _JSON_BLOCK.findall(text)
    return json_object(blocks[-1]) if blocks else {}


def json_object(text: str) -> Mapping[str, Any]:
    """Return a text as a JSON object; empty where it is none."""
    try:
        value = loads_strict(text)
    except ValueError:
        return {}
    return as_object(value)


def as_object(value: Any) -> Mapping[str, Any]:
    """Return a JSON value that is an object; empty for any other."""
    return value if isinstance(value, dict) else {}


def table_rows(value: Any) -> list[Mapping[str, Any]]:
    """Return the rows of a table as mappings; none where `value` is no table."""
    is_table = isinstance(value, Mapping) and {"columns", "rows"} <= value.keys()
    return [dict(zip(value["columns"], row, strict=True)) for row in value["rows"]] if is_table else []


def rows_by_asset(value: Any) -> dict[str, Mapping[str, Any]]:
    """Return the rows of a table of assets by their labels, in its order; rows without one are left out."""
    return {str(row["stock_id"]): row for row in table_rows(value) if "stock_id" in row}


def label_key(label: str) -> str:
    """Return what is equal for all spellings of an asset's label that tasks take for the same: `Asset_0042` is `asset_0042`, and
    sh600519 is 600519.SH.
    """
    text = normalise(label).strip()
    return (parse_code(text) or text).lower()
