"""Words of the wire formats, from `wire.yaml`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from ktdeval.values import load_yaml

_Meaning = TypeVar("_Meaning")


def wire_words(part: str) -> dict[str, Any]:
    """Return a section of `wire.yaml`: the section of one API, or `endings`, which all APIs share."""
    words: dict[str, Any] = load_yaml(Path(__file__).with_name("wire.yaml"))[part]
    return words


def by_word(meanings: Mapping[_Meaning, Sequence[str]]) -> dict[str, _Meaning]:
    """Invert a mapping from meanings to words: return the meaning of each word."""
    meaning_of: dict[str, _Meaning] = {}
    for meaning, words in meanings.items():
        meaning_of |= dict.fromkeys(words, meaning)
    return meaning_of
