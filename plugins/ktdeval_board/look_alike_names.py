"""Normalised names of submitters, models and agents that ignore differences in spelling."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from functools import cache

from ktdeval.masking import normalise
from ktdeval.runner import Registrant
from ktdeval_board.document_types import Submitter
from ktdeval_board.signers import SubmitterKey

Party = tuple[str, ...]
"""The party for which registrations count: a key holder's normalised name, or the normalised name
and contact together.
"""

_ALIASED_MAIL = {"gmail.com", "googlemail.com"}  #: Mail hosts that ignore dots in the local part
_LOOK_ALIKES = str.maketrans("01i5", "olls")  #: Digits and letters that look like others


@cache
def plain_name(name: str) -> str:
    """Return the name of a model or agent without its provider, case and punctuation, which a
    submitter could vary at will.
    """
    return _letters(name.rpartition("/")[2]) or name.casefold()


def mark_of_name(name: str) -> str:
    """Return a normalised form of a submitter's name, in which look-alike characters have a single
    form: `0penAI` and `OPENA1` give the same result.
    """
    letters = _letters(name).translate(_LOOK_ALIKES).replace("rn", "m").replace("vv", "w")
    return f"name {letters or name}"


def mark_of_contact(contact: str) -> str:
    """Return a normalised form of a contact, without case and `+tag`, in which look-alike
    characters have a single form.
    """
    return f"contact {_plain_contact(contact)}"


def pair_of(submitter: Registrant | Submitter) -> Party:
    """Return the normalised name and contact of a submitter, which are only compared as a pair."""
    return mark_of_name(submitter.name), mark_of_contact(submitter.contact)


def holder_of(key: SubmitterKey) -> Party:
    """Return the party that holds a key. All keys under the same name belong to one holder."""
    return (mark_of_name(key.name),)


def holders_by_mark(keys: Iterable[SubmitterKey]) -> Mapping[str, Party]:
    """Map each key, name and contact of the board's key holders to the holder."""
    holders: dict[str, Party] = {}
    for each in keys:
        holder = holder_of(each)
        holders[each.key] = holder
        holders[mark_of_name(each.name)] = holder
        if each.contact is not None:
            holders[mark_of_contact(each.contact)] = holder

    return holders


def _letters(text: str) -> str:
    """Return only the letters and digits of a text, in a normalised form: lower case, without
    accents, and with Latin letters in place of look-alike Cyrillic and Greek ones.
    """
    return "".join(sign for sign in _one_form(text) if sign.isalnum())


def _one_form(text: str) -> str:
    return unicodedata.normalize("NFKC", normalise(text)).casefold()


def _plain_contact(contact: str) -> str:
    text = _one_form(contact).strip()
    if text.startswith("https://"):
        address = text.removeprefix("https://").partition("#")[0].partition("?")[0]
        return address.removeprefix("www.").rstrip("/")

    local, _, host = text.rpartition("@")
    local = local.partition("+")[0]
    host = host.rstrip(".")
    if host in _ALIASED_MAIL:
        return f"{local.replace('.', '')}@gmail.com"

    return f"{local}@{host}"
