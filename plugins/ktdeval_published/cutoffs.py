"""Days after the end of each model's training data."""

from __future__ import annotations

import numpy as np

from ktdeval.cards import listed_cutoff
from ktdeval_published.prices import Stamps
from ktdeval_published.report import CutoffDays


def cutoff_days(model: str, days: Stamps) -> CutoffDays:
    """Return how many days lie after the cutoff of a model: for certain after a date that its
    vendor gives, likely after a lower bound that others report.
    """
    if not model:
        return CutoffDays(model="", unknown=len(days))
    entry = listed_cutoff(model, {})
    if isinstance(entry, str):
        return CutoffDays(model=model, unknown=len(days))

    # a daily return begins at the close before its day
    after = int((days - np.timedelta64(1, "D") >= entry.last).sum())
    clean = 0 if entry.is_lower_bound else after
    likely = after if entry.is_lower_bound else 0
    return CutoffDays(
        model=model,
        date=entry.date,
        confidence=entry.confidence,
        source=entry.source,
        clean=clean,
        likely=likely,
        no=len(days) - after,
    )
