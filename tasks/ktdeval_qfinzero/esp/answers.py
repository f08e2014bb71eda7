"""Answers of the event calls (`answers.yaml`)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from ktdeval_qfinzero.esp import arguments
from ktdeval_qfinzero.schemas import load_types

_type_of = load_types(Path(__file__).with_name("answers.yaml"), {**vars(arguments), "Count": Annotated[int, Meta(ge=0)]})


def __getattr__(name: str) -> Any:
    """Return a type of the file."""
    return _type_of(name)
