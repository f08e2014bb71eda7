"""Datasets of the Hugging Face Hub whose tables we know how to read, and the licences of cards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

from ktdeval.errors import UsageError
from ktdeval.values import JsonValue, build, load_yaml
from ktdeval_data.params import FetchHubParams


@dataclass(frozen=True)
class KnownDataset:
    """A dataset with a mapping of ours."""

    summary: str
    read_on: str  #: day on which its card was read
    card_licence: str  #: what the card said then of the licence
    options: Mapping[str, Any]  #: of `data make hf`
    unstated: tuple[str, ...] = ()  #: what the card leaves open

    @property
    def note(self) -> str:
        """Return the note of a snapshot made by the mapping."""
        return f"columns by ktdeval's mapping; its card does not state {'; '.join(self.unstated)}"


@cache
def known_datasets() -> Mapping[str, KnownDataset]:
    """Return the datasets with a mapping, by ORG/NAME."""
    path = Path(__file__).with_name("hub_datasets.yaml")
    known = {}
    for name, entry in load_yaml(path).items():
        known[name] = build(KnownDataset, {**entry, "read_on": str(entry["read_on"])}, str(path))

    return known


def with_mapping(params: FetchHubParams) -> FetchHubParams:
    """Return the parameters with those of our mapping where the user gave none; a column that the
    user maps is read as the user says.
    """
    known = known_datasets().get(params.bars)
    if known is None:
        return params

    changes: dict[str, Any] = {}
    for field in fields(params):
        if field.name not in known.options:
            continue

        given = getattr(params, field.name)
        option = known.options[field.name]
        if field.name == "map":
            changes["map"] = {**option, **given}
        elif field.default is not MISSING and given == field.default:
            changes[field.name] = option

    return replace(params, **changes)


def licence_of(params: FetchHubParams, stated: JsonValue) -> str:
    """Return the licence under which a dataset is used: that of its card, or the user's words where
    the card states none.

    Raises UsageError if the card states none, and neither does the user; or they differ.
    """
    of_card = _in_words(stated)
    if not of_card and not params.licence:
        raise UsageError(
            f"hf {params.bars}: its card states no licence; read its page, ask its owner, and give"
            " the terms under which you use it: --licence WORDS"
        )
    if of_card and params.licence not in (None, of_card):
        raise UsageError(
            f"hf {params.bars}: its card states the licence {of_card!r}, not {params.licence!r};"
            " leave out --licence"
        )

    if of_card:
        return f"licence {of_card}, as its card states"
    return f"licence {params.licence}, as the user states; its card states none"


def _in_words(stated: JsonValue) -> str:
    """Return a card's licence, a text or a list of texts, as one text."""
    if isinstance(stated, str):
        return stated.strip()
    if isinstance(stated, list):
        return ", ".join(str(each) for each in stated)
    return ""


def advice_on(name: str) -> str:
    """Return what to check where the hub does not give a dataset."""
    known = ", ".join(known_datasets())
    return (
        f"; the hub answers so if there is no public dataset {name}. Check the name, or set HF_TOKEN"
        f" to a token with access to it. Datasets with a mapping are {known}; any other one is read"
        " by --map"
    )
