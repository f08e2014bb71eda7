"""Calls of UPQ for tests, on the small market with minutes of an option."""

from __future__ import annotations

from functools import cache
from itertools import chain
from typing import Any

import numpy as np

from ktdeval_qfinzero.data.dataset import Dataset
from ktdeval_qfinzero.errors import ServiceError
from support.qfinzero import qfinzero_calls as calls
from support.qfinzero.qfinzero_world import bars_of, minute_starts, small_dataset, with_prices

LATE = "2025-03-10T00:00:00Z"  #: After all bars of the small market
MINUTE_OPTION = "O:AVLN250117C00100000"  #: The one option of `market` with minute bars


@cache
def market() -> Dataset:
    """The small market with minute bars of an option."""
    starts = minute_starts()
    worth = np.round(300 + 50 * np.sin(np.arange(len(starts)) / 50)) * 100

    return with_prices(
        small_dataset(), {("option", MINUTE_OPTION, "minute"): bars_of(starts, worth, 20.0)}
    )


def ask(
    name: str, as_of: str | int = LATE, dataset: Dataset | None = None, **arguments: Any
) -> Any:
    """The answer of `UPQ.<name>`."""
    return calls.ask(calls.workspace(as_of, dataset or market()), f"UPQ.{name}", **arguments)


def all_rows(name: str, of: str, **arguments: Any) -> list[Any]:
    """Rows of all pages, none of which is longer than asked for."""
    answers = calls.pages(calls.workspace(LATE, market()), f"UPQ.{name}", **arguments)
    assert all(len(answer[of]) <= arguments["limit"] for answer in answers)
    return list(chain.from_iterable(answer[of] for answer in answers))


def refused(name: str, **arguments: Any) -> ServiceError:
    """The refusal of a call."""
    error = calls.refused(ask, name, **arguments)
    assert error.code == "invalid_argument"
    return error


def column(rows: list[dict[str, Any]], name: str) -> list[Any]:
    """One column of rows."""
    return [row[name] for row in rows]
