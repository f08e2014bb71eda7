"""Calls of UPQ for tests: each answer is checked against the result schema that its operation declares."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator

from ktdeval_qfinzero.catalogue import UPQ as OPERATIONS
from ktdeval_qfinzero.data.stores import Dataset
from ktdeval_qfinzero.errors import ServiceError
from ktdeval_qfinzero.operations import Catalogue
from ktdeval_qfinzero.workspace import Workspace
from qfinzero_memory import MemoryPrices
from qfinzero_world import at, bars_of, minute_starts, small_dataset

UPQ = Catalogue(OPERATIONS)
LATE = "2025-03-10T00:00:00Z"  #: After all bars of the small market
MINUTE_OPTION = "O:AVLN250117C00100000"  #: The one option of `market` with minute bars


@cache
def market() -> Dataset:
    """The small market with minute bars of an option."""
    dataset = small_dataset()
    starts = minute_starts()
    worth = np.round(300 + 50 * np.sin(np.arange(len(starts)) / 50)) * 100
    return with_prices(dataset, bars={("option", MINUTE_OPTION, "minute"): bars_of(starts, worth, 20.0)})


def with_prices(dataset: Dataset, bars: Any = None, **rows: Any) -> Dataset:
    """A dataset with other rows in its price store."""
    prices = dataset.prices
    assert isinstance(prices, MemoryPrices)
    return replace(dataset, prices=replace(prices, bar_table={**prices.bar_table, **(bars or {})}, **rows))


def ask(name: str, as_of: str | int = LATE, dataset: Dataset | None = None, **arguments: Any) -> Any:
    """The answer of `UPQ.<name>`, valid by its schema."""
    workspace = Workspace(dataset or market(), at(as_of) if isinstance(as_of, str) else as_of)
    answer: Any = UPQ.call(workspace, f"UPQ.{name}", arguments)
    # Of a long list the ends: its rows are made of columns, one as the other.
    ends = {of: [*rows[:10], *rows[-10:]] if isinstance(rows, list) and len(rows) > 20 else rows for of, rows in answer.items()}
    _validator(name).validate(ends)
    return answer


@cache
def _validator(name: str) -> Draft202012Validator:
    return Draft202012Validator(dict(UPQ.find(f"UPQ.{name}").result))


def all_rows(name: str, of: str, **arguments: Any) -> list[Any]:
    """Rows of all pages; no page is longer than asked for, and no cursor leads to itself."""
    rows, cursor = [], {}
    while True:
        answer = ask(name, **arguments, **cursor)
        assert len(answer[of]) <= arguments["limit"]
        assert answer["next_cursor"] != cursor.get("cursor", "")
        rows += answer[of]
        if answer["next_cursor"] is None:
            return rows
        cursor = {"cursor": answer["next_cursor"]}


def refused(name: str, **arguments: Any) -> ServiceError:
    """The refusal of a call."""
    with pytest.raises(ServiceError) as caught:
        ask(name, **arguments)
    assert caught.value.code == "invalid_argument"
    return caught.value


def column(rows: list[dict[str, Any]], name: str) -> list[Any]:
    """One column of rows."""
    return [row[name] for row in rows]
