"""Public facts that identify large companies and coins: names in other languages, nicknames,
headquarters, founders and chief executives, products, and words of one asset.

The facts are data with sources (`known_companies.csv`: code, kind, text, source). A market needs no
entity file for them. They apply to an asset with the listed code whose name contains a listed name,
or that has no name; a generated market with a real code and a name of its own has none of them.

Kinds in addition to those of an entity file:

* `nickname`: found anywhere, like a short name;
* `filed`: a name that is also an ordinary word (`苹果`), found only in documents filed under the
  asset;
* `term`: a word of the asset's business that few others have (`miners` of Bitcoin), found only in
  documents filed under the asset.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

from ktdeval.market.snapshots.documents import Entity
from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.masking.names.entity_detection import AliasKind
from ktdeval.masking.names.subject_names import code_forms
from ktdeval.masking.text_normalisation import normalise
from ktdeval.values.disk.files import csv_rows

_FILE = Path(__file__).with_name("known_companies.csv")


# a tuple: a row of the table
class KnownWord(NamedTuple):
    """A word that identifies the asset with a code."""

    kind: AliasKind
    text: str


# a tuple: a row, sortable
class KnownName(NamedTuple):
    """A word that identifies an asset of a market, by the code of its column there."""

    code: str
    kind: AliasKind
    text: str


def known_names(snapshot: MarketSnapshot) -> tuple[KnownName, ...]:
    """Return the listed words of a market's assets."""
    former: dict[str, list[str]] = {}
    for spell in snapshot.spells:
        former.setdefault(spell.code, []).append(spell.name)

    assets = []
    for code, name in zip(snapshot.codes, snapshot.names, strict=True):
        names = (name, *former.get(code, ())) if name != code else ()
        assets.append((code, names))

    return _known_of(tuple(assets), snapshot.meta.synthetic)


def known_entities(snapshot: MarketSnapshot) -> Iterator[Entity]:
    """Yield the listed words of a market's assets that may be withheld in any text, as entities: no
    places, and no words that identify an asset only in documents filed under it.
    """
    for code, kind, text in known_names(snapshot):
        if kind == "nickname":
            yield Entity(code, "name", text)
        elif kind in ("name", "product", "person"):
            yield Entity(code, kind, text)


@lru_cache(maxsize=16)
def _known_of(
    assets: tuple[tuple[str, tuple[str, ...]], ...], is_synthetic: bool
) -> tuple[KnownName, ...]:
    known: list[KnownName] = []
    for code, names in assets:
        for form in code_forms(code):
            words = _words().get(form, ())
            if words and _may_be_meant(names, words, is_synthetic):
                known.extend(KnownName(code, word.kind, word.text) for word in words)
                break

    return tuple(known)


def _may_be_meant(names: Sequence[str], words: Iterable[KnownWord], is_synthetic: bool) -> bool:
    """Return whether an asset with these names may be the company with these words."""
    if not names:
        return not is_synthetic

    listed = [_squash(word.text) for word in words if word.kind == "name"]
    return any(one in _squash(name) for name in names for one in listed)


def _squash(name: str) -> str:
    return "".join(filter(str.isalnum, normalise(name).lower()))


@cache
def _words() -> dict[str, tuple[KnownWord, ...]]:
    """Return the listed words by code."""
    words: dict[str, list[KnownWord]] = {}
    for row in csv_rows(_FILE):
        word = KnownWord(row["kind"], row["text"])  # type: ignore[arg-type]
        words.setdefault(row["code"], []).append(word)

    return {code: tuple(listed) for code, listed in words.items()}
