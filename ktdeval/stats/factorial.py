"""The 2×2 of masks as a factorial experiment: what knowing the stock is worth, what knowing the date is, and what both together.

Contrasts of a two-level factorial design (Fisher 1935, Yates 1937), taken within each (window, seed), so that whatever the four
cells share cancels. They are linear: means of contrasts are contrasts of means, and the stock effect and the date effect add up
to the memory premium.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

Cells = npt.NDArray[np.float64]

MASK_FACTORS: Mapping[str, frozenset[str]] = {
    "bright": frozenset({"stock", "date"}),
    "stock_blind": frozenset({"date"}),
    "date_blind": frozenset({"stock"}),
    "blinded": frozenset(),
}
"""Mask -> what it leaves in sight."""


def mask_contrasts(cells: Mapping[str, Cells]) -> dict[str, Cells]:
    """The effects that the given masks can tell.

    Args:
        cells: mask -> values of any one shape, paired element by element.

    Returns:
        Effect -> values of that shape:
        `memory_premium` = bright - blinded, with both of these;
        `stock_effect` = mean over dates in sight or not of (stock in sight - stock hidden), with all four;
        `date_effect` likewise; `interaction` = (bright - stock_blind) - (date_blind - blinded), with all four: how much more
        knowing the stock is worth when the date is known too.
    """
    effects: dict[str, Cells] = {}
    if {"bright", "blinded"} <= set(cells):
        effects["memory_premium"] = cells["bright"] - cells["blinded"]
    if set(MASK_FACTORS) <= set(cells):
        with_date = cells["bright"] - cells["stock_blind"]
        without_date = cells["date_blind"] - cells["blinded"]
        effects["stock_effect"] = (with_date + without_date) / 2.0
        with_stock = cells["bright"] - cells["date_blind"]
        without_stock = cells["stock_blind"] - cells["blinded"]
        effects["date_effect"] = (with_stock + without_stock) / 2.0
        effects["interaction"] = with_date - without_date
    return effects
