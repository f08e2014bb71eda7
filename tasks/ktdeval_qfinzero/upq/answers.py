"""Answers of the price queries (`answers.yaml`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from ktdeval_qfinzero.schemas import load_types
from ktdeval_qfinzero.upq import arguments

Status = Literal["ok", "below_intrinsic", "no_bracket", "non_finite_input", "expired", "missing_spot", "missing_rate"]

_HERE = {"Status": Status, "EventKind": Literal["split", "dividend"]}
_type_of = load_types(Path(__file__).with_name("answers.yaml"), {**vars(arguments), **_HERE})


def __getattr__(name: str) -> Any:
    """Return a type of the file."""
    return _type_of(name)
