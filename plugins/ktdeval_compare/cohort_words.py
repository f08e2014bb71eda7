"""Texts and columns of `ktdeval compare cohorts`, read from `cohort.yaml`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ktdeval.values import load_yaml


@dataclass(frozen=True, slots=True)
class BaselineColumn:
    """A column in the table of returns and risk."""

    head: str
    metric: str  #: a metric on the card, or `excess`
    unit: str
    least: float  #: lower bound of the figure, at which intervals are clipped
    greatest: float


_TEXTS: Mapping[str, Any] = load_yaml(Path(__file__).with_name("cohort.yaml"))
TITLES: Mapping[str, str] = _TEXTS["titles"]
LEGENDS: Mapping[str, str] = _TEXTS["legends"]
REASONS: Mapping[str, str] = _TEXTS["reasons"]
BASELINE = [BaselineColumn(*entry) for entry in _TEXTS["baseline"]]
