"""Price-limit data that supplement the board rules: special treatment, a vendor's limit prices,
listing days.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class PriceLimits:
    """Data on price limits; each field is None or empty if the data lack it.

    A vendor's limit prices take precedence over the board rules. They are unadjusted, in currency
    units, and known before the open of their day.
    """

    special: BoolArray | None = None  #: [T, N] whether the asset is under special treatment (ST)
    #: [T, N] highest permitted price of the day; NaN where not known
    upper: FloatArray | None = None
    #: [T, N] lowest permitted price of the day; NaN where not known
    lower: FloatArray | None = None
    #: [N] ISO listing day, "" where not known; empty tuple if none is known
    listed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.listed) or bool(self.arrays)

    @property
    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the available arrays, by name."""
        named = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: array for name, array in named.items() if isinstance(array, np.ndarray)}


NO_PRICE_LIMITS = PriceLimits()
