"""Types of the broker's operations: what they take (`arguments.yaml`) and, in dollars and moments, answer (`answers.yaml`)."""

from __future__ import annotations

from pathlib import Path
from typing import Final, get_args

from ktdeval_qfinzero.instruments import MOST_TICKER
from ktdeval_qfinzero.pmb import values
from ktdeval_qfinzero.pmb.events import EventType
from ktdeval_qfinzero.schemas import load_types

MOST_SYMBOLS: Final = 500
MOST_QTY: Final = 1_000_000
MOST_PRICE: Final = 1_000_000
MOST_CASH: Final = 1_000_000_000
MOST_TICKERS: Final = 200

_STATES: Final = f"{', '.join(get_args(values.OrderStatus))}; OPEN: all that work; NEW: as ACCEPTED"
_KNOWN = {**vars(values), **globals(), "STATES": _STATES, "EventType": EventType, "MOST_TICKER": MOST_TICKER}

__getattr__ = load_types(_KNOWN, *map(Path(__file__).with_name, ("arguments.yaml", "answers.yaml")))
