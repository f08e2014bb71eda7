"""Words of a card's fields for readers: label, unit and meaning. `words.json` is made of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FieldWords:
    """Words of one field, label or kind."""

    label: str  #: name of a row or a column
    unit: str  #: unit of its figures; empty where there is none
    meaning: str  #: what it is, in one line
    section: str = ""  #: section of the docs with the details, such as `cards.md#cost`


def in_words(name: str) -> str:
    """Return a name of a field as words: `episodes_planned` to `episodes planned`."""
    return name.replace("_", " ")


def counted(path: str, unit: str, meanings: Mapping[str, str]) -> dict[str, FieldWords]:
    """Return the words of the counts of one field, by their paths."""
    return {
        f"{path}.{name}": FieldWords(in_words(name), unit, meaning)
        for name, meaning in meanings.items()
    }


#: Names that readers see for metrics whose own name is an abbreviation
METRIC_WORDS: Mapping[str, str] = {
    "hhi": "concentration (HHI)",
    "ece": "calibration error (ECE)",
    "ece_debiased": "debiased ECE",
}


def metric_word(name: str) -> str:
    """Return the name that readers see for a metric: its own, unless that is an abbreviation."""
    return METRIC_WORDS.get(name, name)
