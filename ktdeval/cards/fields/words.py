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
    """Words of one field, label or kind."""

    label: str  #: name of a row or a column
    meaning: str  #: what it is, in one line
    unit: str = ""  #: unit of its figures; empty where there is none
    section: str = ""  #: section of the docs with the details, such as `cards.md#cost`


class FigureUnit(msgspec.Struct, frozen=True):
    """How figures of a unit are shown."""

    shown: str | None  #: word beside the figure, may be empty; None: the unit's own name
    decimals: int
    factor: int  #: by which figures are multiplied


class CardWords(msgspec.Struct, frozen=True):
    """Content of `words.json`, a table a group."""

    fields: dict[str, FieldWords]  #: by dotted path in a card's file
    labels: dict[str, FieldWords]  #: in the order in which a card shows them
    provenance: dict[str, FieldWords]  #: by who decided a step
    failures: dict[str, FieldWords]  #: by kind
    #: with `other` for units without a rule of their own. `fraction of …` is shown as `fraction`,
    #: and `annualised ratio over …` as `annualised ratio` with what it is over.
    units: dict[str, FigureUnit]


#: Reader-facing names of metrics whose own name is an abbreviation
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

    `fields` (by dotted path), `labels`, `provenance` and `failures` have `label`, `unit`, `meaning`
    and `section` (of the docs, may be empty); `units` have the word `shown`, the number of
    `decimals` and the `factor` by which figures are multiplied; `metrics` have `unit`, `better` and
    `meaning`.
    """
    metrics = {}
    for name, row in metric_rows().items():
        metrics[name] = {"unit": row["unit"], "better": row["better"], "meaning": row["summary"]}

    words: dict[str, Any] = msgspec.to_builtins(read_words())
    return {**words, "metrics": metrics}


def field_label(path: str) -> str:
    """Return the name of a field's row or column; `path`: dotted, as in a card's file."""
    return read_words().fields[path].label


def label_word(label: str) -> str:
    """Return a card label as shown to readers; an unknown label is returned unchanged."""
    words = read_words().labels.get(label)
    return label if words is None else words.label


def metric_word(name: str) -> str:
    """Return the reader-facing name of a metric: its own, unless that is an abbreviation."""
    return METRIC_WORDS.get(name, name)
