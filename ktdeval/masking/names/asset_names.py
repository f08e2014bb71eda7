"""Names of a market's assets: what each word in a text may mean, and the noun that replaces it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.masking.hidden_spans import COMPANY, PERSON, PLACE, PRODUCT, TERM
from ktdeval.masking.names.entity_detection import AliasKind
from ktdeval.masking.names.identity_index import name_variants
from ktdeval.masking.names.known_companies import known_names
from ktdeval.masking.names.short_names import short_names
from ktdeval.masking.text_normalisation import normalise

NOUNS: dict[AliasKind, str] = {
    "person": PERSON,
    "product": PRODUCT,
    "place": PLACE,
    "term": TERM,
}
"""Noun that replaces a word of a kind; other kinds mean a company."""

#: kinds of which a word identifies an asset only in documents filed under it
FILED_KINDS: frozenset[AliasKind] = frozenset(("place", "filed", "term"))
_NO_MEANING = FILED_KINDS | {"short", "nickname"}

Name = tuple[int, AliasKind, str]  #: column (-1: not an asset in the market), kind and text


def asset_names(snapshot: MarketSnapshot) -> tuple[Name, ...]:
    """Return all names of assets as entities: names, codes, former names and codes, and listed
    entities.
    """
    column = snapshot.asset_index
    names: list[Name] = []
    for asset, name in enumerate(snapshot.names):
        if name != snapshot.codes[asset]:
            names.append((asset, "name", name))

    for spell in snapshot.spells:
        names.append((column[spell.code], "former", spell.name))

    for asset, code in enumerate(snapshot.codes):
        names.append((asset, "ticker", code))

    for code in snapshot.former_codes:
        names.append((column[snapshot.canonical(code)], "ticker", code))

    for entity in snapshot.documents.entities:
        names.append((column.get(entity.code, -1), entity.kind, entity.text))

    return (*names, *_derive_names(names), *_known_names(snapshot))


def _known_names(snapshot: MarketSnapshot) -> Iterator[Name]:
    """Yield the listed words of known companies. A listed name may be shared by two codes of one
    company, so it is unofficial.
    """
    column = snapshot.asset_index
    for code, kind, text in known_names(snapshot):
        yield column[code], "nickname" if kind == "name" else kind, text


def _derive_names(names: Iterable[Name]) -> Iterator[Name]:
    """Yield short names derived from official names, unless they are listed as names themselves."""
    listed = {normalise(text).strip().lower() for _, kind, text in names if kind != "ticker"}
    for asset, kind, text in names:
        if kind not in ("name", "former"):
            continue

        for short in sorted(short_names(text)):
            if short.lower() not in listed:
                yield asset, "short", short


def meanings(named: tuple[Name, ...]) -> dict[str, frozenset[int]]:
    """Return the columns of the assets that a name may mean. Keys are the digits of a code, or the
    name without spaces and case.
    """
    assets: dict[str, set[int]] = {}
    for asset, kind, text in named:
        if kind in _NO_MEANING:
            continue

        variants = set(name_variants(text))
        if kind == "ticker":
            variants.add(text[:6])

        for variant in variants - {""}:
            assets.setdefault(variant, set()).add(asset)

    return {variant: frozenset(columns) for variant, columns in assets.items()}


def nouns_of(named: tuple[Name, ...]) -> dict[str, str]:
    """Return the noun that replaces a person or a product, keyed by name without spaces and case.
    Names shared with a company or a code get the noun for a company.
    """
    nouns: dict[str, str] = {}
    for _, kind, text in sorted(named, key=lambda name: name[1] in NOUNS):
        if kind in FILED_KINDS:
            continue

        for variant in name_variants(text):
            nouns.setdefault(variant, NOUNS.get(kind, COMPANY))

    return nouns
