"""Answers of the broker (`answers.yaml`): accounts, positions, orders, trades and sessions in dollars and moments."""

from __future__ import annotations

from pathlib import Path

from ktdeval_qfinzero.pmb import arguments, events, values
from ktdeval_qfinzero.schemas import load_types

_KNOWN = {**vars(values), **vars(arguments), "EventType": events.EventType}

__getattr__ = load_types(_KNOWN, Path(__file__).with_name("answers.yaml"))
