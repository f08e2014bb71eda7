"""Daily returns of a card's episodes, from the ledgers of the run folder it lies in."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ktdeval.api import StoreError, file_sha256, load_ledger
from ktdeval_compare.entrants import Cell, Entrant


def daily_returns(entrant: Entrant, cells: Sequence[Cell]) -> dict[str, float] | str:
    """Day -> mean over seeds, and over windows that share the day, of the NAV's simple return; or why there is none.

    A day counts once however many windows hold it, so that no day is evidence twice. Ledgers whose bytes are not those that the
    card was made from are not used.
    """
    folder = entrant.path.resolve().parent.parent
    episodes = entrant.episodes()
    by_day: dict[str, list[float]] = defaultdict(list)
    for window, seed in cells:
        name = f"episodes/{episodes[window, seed]['id']}/ledger.parquet"
        path, recorded = folder / name, entrant.card["artefacts"].get(name)
        if not path.is_file():
            return f"{entrant.label}: no ledgers beside the card"
        if file_sha256(path) != recorded:
            return f"{entrant.label}: {name} is not the ledger that the card was made from"
        try:
            ledger = load_ledger(path)
        except StoreError as error:
            return f"{entrant.label}: {error}"
        if (ledger.nav <= 0).any():
            return f"{entrant.label}: a NAV is not positive"
        for day, value in zip(ledger.days, ledger.returns, strict=True):
            by_day[str(day)].append(float(value))
    return {day: float(np.mean(values)) for day, values in sorted(by_day.items())}


def daily_table(entrants: Sequence[Entrant], cells: Sequence[Cell]) -> npt.NDArray[np.float64] | str:
    """[days, cards] daily returns over the same days, or why there is no such table."""
    columns: list[dict[str, float]] = []
    for entrant in entrants:
        found = daily_returns(entrant, cells)
        if isinstance(found, str):
            return found
        if columns and list(found) != list(columns[0]):
            return f"{entrant.label}: its ledgers cover other days than those of {entrants[0].label}"
        columns.append(found)
    table: npt.NDArray[np.float64] = np.array([list(column.values()) for column in columns]).T
    return table
