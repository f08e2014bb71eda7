"""Types of the price queries: what they take (`arguments.yaml`) and what they answer (`answers.yaml`)."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from ktdeval_qfinzero import instruments
from ktdeval_qfinzero.data import rows
from ktdeval_qfinzero.schemas import load_types
from ktdeval_qfinzero.upq import arguments, columns

Mode = Literal["none", "split", "total"]
PriceField = Literal["close", "open"]
ListedClass = Literal["stock", "crypto"]
DayStatus = Literal["complete", "incomplete", "no_session"]

_LISTED = {name: ", ".join(getattr(of, name)) for of, name in ((rows, "TENOR_YEARS"), (arguments, "TERMS"), (arguments, "VALUES"))}
_KNOWN = {**vars(instruments), **vars(rows), **vars(columns), **vars(arguments), **globals(), **_LISTED}

__getattr__ = load_types(_KNOWN, *map(Path(__file__).with_name, ("arguments.yaml", "answers.yaml")))
