"""Normalised names of submitters, models and agents, without differences of spelling."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from functools import cache

from ktdeval.masking import normalise
from ktdeval.runner import Registrant
from ktdeval_board.document_types import Submitter
from ktdeval_board.signers import SubmitterKey

Party = tuple[str, ...]
"""Whom registrations count for: marks of a key holder's name, or of name and contact together."""

_ALIASED_MAIL = {"gmail.com", "googlemail.com"}  #: Hosts that ignore dots in a name
_LOOK_ALIKES = str.maketrans("01i5", "olls")  #: Digits and letters that look like others


@cache
def plain_name(name: str) -> str:
    """Return a name of a model or agent without provider, case and signs, which a submitter can
    choose.
    """
    return _letters(name.rpartition("/")[2]) or name.casefold()


def mark_of_name(name: str) -> str:
    """Return the mark of a submitter's name: without spelling, and with one form of signs that look
    alike (`0penAI`, `OPENA1`).
    """
    letters = _letters(name).translate(_LOOK_ALIKES).replace("rn", "m").replace("vv", "w")
    return f"name {letters or name}"


def mark_of_contact(contact: str) -> str:
    """Return the mark of a contact: without case, `+tag`, and signs that look like others."""
    return f"contact {_plain_contact(contact)}"


def pair_of(submitter: Registrant | Submitter) -> Party:
    """Return the marks of a submitter's name and contact, which are compared only together."""
    return mark_of_name(submitter.name), mark_of_contact(submitter.contact)


def holder_of(key: SubmitterKey) -> Party:
    """Return the party of a key: all keys of one name are of one holder."""
    return (mark_of_name(key.name),)


def holders_by_mark(keys: Iterable[SubmitterKey]) -> Mapping[str, Party]:
    """Return the holder of each key, name and contact for which the board knows a key."""
    holders: dict[str, Party] = {}
    for each in keys:
        holder = holder_of(each)
        holders[each.key] = holder
        holders[mark_of_name(each.name)] = holder
        if each.contact is not None:
            holders[mark_of_contact(each.contact)] = holder

    return holders


def _letters(text: str) -> str:
    """Return only the letters and digits of a text, normalised in case and form: without accents,
    and with Latin letters for Cyrillic and Greek ones that look alike.
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
