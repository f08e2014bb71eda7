"""Notes on what an attribution had to do without, as types: nothing is filled in or left out silently."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from ktdeval.jsonio import JsonValue

NoteKind = Literal[
    "missing_exposure", "no_exposures", "default_weight", "equal_weights", "constant_factor", "collinear_factor", "too_few_names",
    "no_names", "held_outside_index", "held_without_exposures", "held_without_return",
]  # fmt: skip

NOTE_MEANINGS: dict[NoteKind, str] = {
    "missing_exposure": "exposures of investable names that were undefined and count as 0, the cross-sectional mean",
    "no_exposures": "investable names without any exposure, left out of the regression",
    "default_weight": "investable names without turnover data, given the day's median regression weight",
    "equal_weights": "days without any turnover data: all names weigh the same",
    "constant_factor": "days on which the exposures did not differ: the factor's return is 0",
    "collinear_factor": "days on which the factors before it explain the exposures: the factor's return is 0",
    "too_few_names": "days with no more names than parameters: only the common return was fitted",
    "no_names": "days without a name to fit: every factor return is 0 and all of a holding's return is selection",
    "held_outside_index": "holdings that were not investable: they keep exposures, but took no part in the regression",
    "held_without_exposures": "holdings without any exposure: common and selection only",
    "held_without_return": "holdings without a bar that day: their return is 0",
}


@dataclass(frozen=True, slots=True)
class Note:
    """One kind of shortfall.

    Attributes:
        kind: a key of `NOTE_MEANINGS`.
        subject: the factor or industry it is about; empty where it is about all.
        count: how many entries (name-days or days, as its meaning says).
        days: on how many days.
    """

    kind: NoteKind
    subject: str
    count: int
    days: int

    @property
    def meaning(self) -> str:
        """What was counted, in words."""
        return NOTE_MEANINGS[self.kind]

    def to_json(self) -> dict[str, JsonValue]:
        """Return the note with its meaning."""
        return {**asdict(self), "meaning": self.meaning}


def daily_notes(
    kind: NoteKind, counts: npt.NDArray[np.intp] | npt.NDArray[np.bool_], subjects: tuple[str, ...] = ("",)
) -> list[Note]:
    """Notes from counts a day, one for each subject that has any.

    Args:
        kind: of all of them.
        counts: [D] or [D, subjects].
        subjects: what the columns are about.
    """
    table = counts.reshape(len(counts), -1)
    totals, days = table.sum(axis=0), np.count_nonzero(table, axis=0)
    return [Note(kind, subject, int(totals[place]), int(days[place])) for place, subject in enumerate(subjects) if days[place]]
