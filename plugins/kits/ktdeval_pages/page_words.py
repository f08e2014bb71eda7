"""Words that pages share: the words of cards, and those in `words.yaml`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from ktdeval.cards import card_words
from ktdeval.values import load_yaml


class Mark(msgspec.Struct, frozen=True):
    """Tone and meaning of a label or tier. `shown` is its text if this is not its name."""

    tone: str = ""  # `good`, `warn`, `bad` or empty
    meaning: str = ""
    shown: str = ""


class Unit(msgspec.Struct, frozen=True, omit_defaults=True):
    """Format for figures with a unit."""

    decimals: int
    shown: str = ""  # text after the figure
    before: str = ""  # text before the figure
    factor: float = 1.0


class Kind(msgspec.Struct, frozen=True):
    """Kind of provenance or failure, with its name in tables and its meaning."""

    label: str
    meaning: str


class Words(msgspec.Struct, frozen=True):
    """Words keyed by subject. Page scripts read them as `kt.values.words`."""

    labels: Mapping[str, Mark]
    tiers: Mapping[str, Mark]
    provenance: Mapping[str, Kind]
    failures: Mapping[str, Kind]
    units: Mapping[str, Unit]
    undefined: str


class OwnWords(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Contents of `words.yaml`."""

    labels: Mapping[str, Mark]
    tiers: Mapping[str, Mark]
    units: Mapping[str, Unit]
    undefined: str


OWN_WORDS = msgspec.convert(load_yaml(Path(__file__).with_name("words.yaml")), OwnWords)


def _joined_words(own: OwnWords) -> Words:
    """Return the words of cards together with the words of pages."""
    cards = card_words()

    labels = dict(own.labels)
    for name, words in cards["labels"].items():
        tone = labels[name].tone if name in labels else ""
        shown = "" if words["label"] == name else words["label"]
        labels[name] = Mark(tone, _plain_meaning(words["meaning"]), shown)

    units = dict(own.units)
    for name, unit in cards["units"].items():
        units[name] = Unit(unit["decimals"], shown=unit["shown"] or "", factor=unit["factor"])

    return Words(
        labels=labels,
        tiers=own.tiers,
        provenance=_kinds_by_name(cards["provenance"]),
        failures=_kinds_by_name(cards["failures"]),
        units=units,
        undefined=own.undefined,
    )


def _kinds_by_name(words_by_name: Mapping[str, Mapping[str, Any]]) -> dict[str, Kind]:
    kinds = {}
    for name, words in words_by_name.items():
        kinds[name] = Kind(words["label"], _plain_meaning(words["meaning"]))

    return kinds


def _plain_meaning(meaning: str) -> str:
    """Return a meaning without Markdown, since pages would show the markup as plain characters."""
    return meaning.replace("`", "")


WORDS = _joined_words(OWN_WORDS)


def label_meaning(label: str) -> str:
    """Return the meaning of a card's label; empty if the label is unknown."""
    mark = WORDS.labels.get(label)
    if mark is None:
        return ""

    return mark.meaning
