"""Tables in a state: `{"columns": [...], "rows": [[...], ...]}` is read as one mapping per row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ASSET = "stock_id"
"""Column that holds an asset's label."""


def as_object(value: Any) -> Mapping[str, Any]:
    """Return a JSON value if it is an object; otherwise empty."""
    return value if isinstance(value, dict) else {}


def table_rows(value: Any) -> list[Mapping[str, Any]]:
    """Return the rows of a table as mappings, keyed by column; empty if `value` is not a table."""
    is_table = isinstance(value, Mapping) and "columns" in value and "rows" in value
    if not is_table:
        return []

    columns = value["columns"]
    return [dict(zip(columns, row, strict=True)) for row in value["rows"]]


def rows_by_asset(value: Any) -> dict[str, Mapping[str, Any]]:
    """Return the rows of a table, keyed by asset label, in table order. Rows without a label are
    omitted.
    """
    by_asset: dict[str, Mapping[str, Any]] = {}
    for row in table_rows(value):
        if ASSET in row:
            by_asset[str(row[ASSET])] = row

    return by_asset
