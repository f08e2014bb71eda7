"""Wording of cards for readers, from `words.json`: fields, labels, deciders, failures, units."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from ktdeval.stats.metric import metric_rows

WORDS_FILE = Path(__file__).parents[1] / "words.json"


class FieldWords(msgspec.Struct, frozen=True):
    """Wording of one field, label or kind."""

    label: str  #: name of the row or column
    meaning: str  #: one-line explanation
    unit: str = ""  #: unit of the figures; empty if they have no unit
    section: str = ""  #: section of the docs with details, such as `cards.md#cost`


class FigureUnit(msgspec.Struct, frozen=True):
    """How figures with a unit are shown."""

    #: word shown next to the figure, which may be empty; None: the unit's own name
    shown: str | None
    decimals: int
    factor: int  #: factor by which figures are multiplied


class CardWords(msgspec.Struct, frozen=True):
    """Contents of `words.json`."""

    fields: dict[str, FieldWords]  #: keyed by dotted path in a card's file
    labels: dict[str, FieldWords]  #: in the order in which a card shows its labels
    provenance: dict[str, FieldWords]  #: keyed by who decided a step
    failures: dict[str, FieldWords]  #: keyed by kind of failure
    #: keyed by unit, with `other` for units without their own entry. `fraction of …` is shown as
    #: `fraction`, and `annualised ratio over …` as `annualised ratio` with what it is over.
    units: dict[str, FigureUnit]


#: Reader-facing names of metrics whose own names are abbreviations
METRIC_WORDS: Mapping[str, str] = {
    "hhi": "concentration (HHI)",
    "ece": "calibration error (ECE)",
    "ece_debiased": "debiased ECE",
}


@cache
def read_words() -> CardWords:
    """Return the wording of cards."""
    return msgspec.json.decode(WORDS_FILE.read_bytes(), type=CardWords)


@cache
def card_words() -> Mapping[str, Any]:
    """Return the wording of cards as plain values, for web pages.

    - `fields` (keyed by dotted path), `labels`, `provenance` and `failures` have `label`, `unit`,
      `meaning` and `section` (of the docs, may be empty).
    - `units` have the word `shown`, the number of `decimals`, and the `factor` by which figures are
      multiplied.
    - `metrics` have `unit`, `better` and `meaning`.
    """
    metrics = {}
    for name, row in metric_rows().items():
        metrics[name] = {"unit": row["unit"], "better": row["better"], "meaning": row["summary"]}

    words: dict[str, Any] = msgspec.to_builtins(read_words())
    return {**words, "metrics": metrics}


def field_label(path: str) -> str:
    """Return the name of a field's row or column. `path` is the dotted path in a card's file."""
    return read_words().fields[path].label


def label_word(label: str) -> str:
    """Return a card label as shown to readers. An unknown label is returned unchanged."""
    words = read_words().labels.get(label)
    return label if words is None else words.label


def metric_word(name: str) -> str:
    """Return the reader-facing name of a metric: its own name unless that is an abbreviation."""
    return METRIC_WORDS.get(name, name)
