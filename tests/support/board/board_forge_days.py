"""The days of forged episodes: those of a real run, to which daily selection is drawn anew for each
entrant.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

_ATTRIBUTED = (
    "common",
    "industry",
    "style",
    "selection",
    "trading",
    "selection_daily",
    "exposures",
)


@dataclass(frozen=True)
class Played:
    """One forged episode: its entry on the card, and its days with levels as they were before they
    are rounded.
    """

    entry: dict[str, Any]
    days: dict[str, Any]  #: the real episode of the series
    drawn: Array  #: [n] daily selection that the entrant has beyond the real run's

    @property
    def moved(self) -> Array:
        """[n + 1] what of it the NAV has since the base day."""
        return np.concatenate([[0.0], np.cumsum(self.drawn)])

    @property
    def nav(self) -> Array:
        """[n + 1] levels over the initial cash."""
        levels: Array = np.array(self.days["nav"]) + self.moved
        return levels

    def series(self, envelope: bool, rng: np.random.Generator) -> dict[str, Any]:
        """Its episode of the card's series."""
        alpha = self.entry["metrics"]["selection_alpha"]
        days = self.days
        beaten = int(rng.integers(201))
        own = {name: self.entry[name] for name in ("id", "window", "seed")}
        own |= {"nav": six(self.nav), "gross_nav": six(np.array(days["gross_nav"]) + self.moved)}
        own["selection"] = six(np.array(days["selection"]) + self.moved[1:])
        own["selection_daily"] = six(np.array(days["selection_daily"]) + self.drawn)

        if alpha["value"] is None:
            own |= dict.fromkeys(_ATTRIBUTED) | {"attribution_reason": alpha["reason"]}

        tested = (
            {**days["envelope"], "rank": beaten / 200, "p_value": (201 - beaten) / 201}
            if envelope
            else None
        )

        return (
            days
            | own
            | {
                "envelope": tested,
                "envelope_reason": None if envelope else "the episode has no trades to imitate",
            }
        )


def forge_decisions(
    real: Iterable[Mapping[str, Any]], hostile: Sequence[str], rng: np.random.Generator
) -> list[dict[str, Any]]:
    """Steps of a real run of which each order is given or not; `hostile` texts take the place of
    their reasons.
    """
    steps = []

    for step in real:
        orders = [copy.copy(order) for order in step["orders"] if rng.random() < 0.7]
        for order in orders if hostile else ():
            order["reason"] = hostile[int(rng.integers(len(hostile)))]

        steps.append({**step, "orders": orders, "holdings": step["holdings"][:8]})

    return steps


def six(values: Array) -> list[float]:
    """Rounded to six significant digits."""
    return [float(f"{value:.6g}") for value in values]
