"""Daily returns of a card's episodes, from the ledgers of the run folder it lies in."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ktdeval.errors import StoreError
from ktdeval.jsonio import file_sha256
from ktdeval.runner import load_ledger
from ktdeval.trading import Ledger
from ktdeval_compare.entrants import Cell, Entrant


def recorded_ledger(entrant: Entrant, episode: str) -> Ledger | str:
    """Return the ledger of an episode as the card was made from it, or why there is none: bytes that changed since are not used."""
    name = f"episodes/{episode}/ledger.parquet"
    path = entrant.run_folder / name
    if not path.is_file():
        return "no ledgers beside the card"
    if file_sha256(path) != entrant.card.artefacts.get(name):
        return f"{name} is not the ledger that the card was made from"
    try:
        return load_ledger(path)
    except StoreError as error:
        return str(error)


def daily_returns(entrant: Entrant, cells: Sequence[Cell]) -> dict[str, float] | str:
    """Day -> mean over seeds, and over windows that share the day, of the NAV's simple return; or why there is none.

    A day counts once however many windows hold it, so that no day is evidence twice. Ledgers whose bytes are not those that the
    card was made from are not used.
    """
    episodes = entrant.episodes()
    by_day: dict[str, list[float]] = defaultdict(list)
    for window, seed in cells:
        ledger = recorded_ledger(entrant, episodes[window, seed].id)
        if isinstance(ledger, str):
            return f"{entrant.label}: {ledger}"
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
