"""Answers of the broker (`answers.yaml`): accounts, positions, orders, trades and sessions in dollars and moments."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from ktdeval_qfinzero.pmb import arguments, events, values
from ktdeval_qfinzero.schemas import load_types

_HERE = {"Form": Literal["json", "csv"], "MarginStatus": Literal["OK", "MARGIN_CALL"], "EventType": events.EventType}
_type_of = load_types(Path(__file__).with_name("answers.yaml"), {**vars(values), **vars(arguments), **_HERE})


def __getattr__(name: str) -> Any:
    """Return a type of the file."""
    return _type_of(name)
