"""Types of the event calls: what they take (`arguments.yaml`) and what they answer (`answers.yaml`)."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from ktdeval_qfinzero.data import rows
from ktdeval_qfinzero.instruments import TICKER
from ktdeval_qfinzero.schemas import load_types

EventView = Literal["compact", "full"]
Status = Literal["scheduled", "occurred", "updated"]
Change = Literal["announced", "changed", "released", "revised", "published"]
Reason = Literal["HIGH_IMPORTANCE", "TIME_IMMINENT", "MATCH_WATCHLIST"]

_KNOWN = {**vars(rows), **globals(), "TICKER": f"^{TICKER.pattern}$"}

__getattr__ = load_types(_KNOWN, *map(Path(__file__).with_name, ("arguments.yaml", "answers.yaml")))
