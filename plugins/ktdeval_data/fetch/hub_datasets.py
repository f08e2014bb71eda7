"""Datasets on the Hugging Face Hub whose tables we know how to read, and licences from dataset
cards.
"""

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
    """A dataset for which we have a mapping."""

    summary: str
    read_on: str  #: day on which we read the dataset's card
    card_licence: str  #: licence stated on the card on that day
    options: Mapping[str, Any]  #: options for `data make hf`
    unstated: tuple[str, ...] = ()  #: facts that the card does not specify

    @property
    def note(self) -> str:
        """Return the note for a snapshot made with the mapping."""
        return f"columns by ktdeval's mapping; its card does not state {'; '.join(self.unstated)}"


@cache
def known_datasets() -> Mapping[str, KnownDataset]:
    """Return the datasets with a mapping, keyed by ORG/NAME."""
    path = Path(__file__).with_name("hub_datasets.yaml")
    known = {}
    for name, entry in load_yaml(path).items():
        known[name] = build(KnownDataset, {**entry, "read_on": str(entry["read_on"])}, str(path))

    return known


def with_mapping(params: FetchHubParams) -> FetchHubParams:
    """Return the parameters, with values from our mapping for those that the user did not give.
    Where the user maps a column, the user's mapping takes precedence.
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
    """Return the licence under which a dataset is used: the one on the card, or the one stated by
    the user if the card states no licence.

    Raises UsageError if neither the card nor the user states a licence, or if the two differ.
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
    """Return the licence on a card, which is a string or a list of strings, as one string."""
    if isinstance(stated, str):
        return stated.strip()
    if isinstance(stated, list):
        return ", ".join(str(each) for each in stated)
    return ""


def advice_on(name: str) -> str:
    """Return advice on what to check if the hub does not return a dataset."""
    known = ", ".join(known_datasets())
    return (
        f"; the hub answers so if there is no public dataset {name}. Check the name, or set "
        f"HF_TOKEN to a token with access to it. Datasets with a mapping are {known}; any other "
        "one is read by --map"
    )
