"""Signatures on a board: of maintainers on verdicts, and of submitters on cards. Each is a file next
to the signed one, `<card id>.json.sig`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from ktdeval.cards import (
    SIGNED_CARD,
    SIGNED_VERDICT,
    PrivateKey,
    check_envelope,
    parse_envelope,
    sign_file,
    signature_path,
)
from ktdeval.errors import CardError, SignatureError
from ktdeval.values.jsonio import sha256_hex
from ktdeval_board.reading import read_bytes
from ktdeval_board.registrations import mark_of_name
from ktdeval_board.rules import Rules
from ktdeval_board.signers import SubmitterKey

_MOST_BYTES = 65_536  # of a signature file
_MOST_SIGNED_BYTES = 100_000_000  # of a card or verdict; other rules set closer limits


def verdict_signers(verdict: Path, rules: Rules) -> tuple[str, ...]:
    """Return the names of the signers of a verdict; none if it has no signature file.

    Raises SignatureError: its signature file is malformed, on other bytes, or of no signer of the
    board. On a board without signers, signature files are ignored.
    """
    target = signature_path(verdict)
    if not rules.signers or not os.path.lexists(target):
        return ()

    data, sha256 = _signature_and_hash(verdict)
    trusted = {}
    names = {}
    for each in rules.signers:
        key = each.public_key()
        trusted[key.id] = key
        names[key.id] = each.name

    ids = check_envelope(data, sha256, SIGNED_VERDICT, trusted, target.name)
    return tuple(names[key_id] for key_id in ids)


def lacks_signature(verdict: Path, rules: Rules) -> bool:
    """Return whether a board asks for a signature that a verdict does not have. Raises
    SignatureError as of `verdict_signers`.
    """
    signers = verdict_signers(verdict, rules)
    return rules.verdict_signatures == "required" and not signers


def keys_of(submitter: str, rules: Rules) -> tuple[SubmitterKey, ...]:
    """Return the keys that a board has of a submitter, by name without spelling."""
    mark = mark_of_name(submitter)
    return tuple(each for each in rules.submitter_keys if mark_of_name(each.name) == mark)


def card_signers(card: Path, submitter: str, rules: Rules) -> tuple[str, ...]:
    """Return the name of the submitter if a key that the board has of theirs signed a card; nothing
    if it has no signature file.

    Raises SignatureError: its signature file is malformed, on other bytes, or of no key that the
    board has of this submitter.
    """
    if not os.path.lexists(signature_path(card)):
        return ()

    data, sha256 = _signature_and_hash(card)
    where = signature_path(card).name
    own = {each.public_key().id: each for each in keys_of(submitter, rules)}
    if not own:
        raise SignatureError(
            f"{where}: the board has no key of {submitter} to check it by; ask its maintainers to"
            " add yours to submitter_keys in board.yaml, or leave the signature out"
        )

    others = {each.public_key().id: each.name for each in rules.submitter_keys}
    signed = [signature.keyid for signature in parse_envelope(data, where).signatures]
    foreign = [others[key_id] for key_id in signed if key_id in others]
    if foreign and not any(key_id in own for key_id in signed):
        raise SignatureError(
            f"{where}: is of {foreign[0]}, but {submitter} submits; whoever signs a card must"
            " submit it"
        )

    trusted = {key_id: each.public_key() for key_id, each in own.items()}
    ids = check_envelope(data, sha256, SIGNED_CARD, trusted, where)
    return tuple(dict.fromkeys(own[key_id].name for key_id in ids))


def lacks_card_signature(card: Path, submitter: str, rules: Rules) -> bool:
    """Return whether a board has a key of a submitter by which a card is not signed. Raises
    SignatureError as of `card_signers`.
    """
    signers = card_signers(card, submitter, rules)
    return bool(keys_of(submitter, rules)) and not signers


@dataclass(frozen=True)
class MadeSignature:
    """Signature of a card that is submitted."""

    data: bytes | None = None  #: content of its file; None where there is none
    problems: tuple[str, ...] = ()  #: why it can't be made
    notes: tuple[str, ...] = ()  #: what the submitter should know


def signature_of(
    card: Path, submitted: Path, has_key: bool, key: PrivateKey | None
) -> MadeSignature:
    """Sign a card as it is submitted by a key, or take along the signature that it has.

    `card`: its file in the run; `submitted`: as it is submitted, which differs where a secret was
    replaced. `has_key`: whether the board has a key of the submitter. Raises SignatureError: the
    signature next to the card can't be read.
    """
    if key is not None and not has_key:
        problem = (
            "signature: the board has no key of this submitter to check it by; ask its maintainers"
            f" to add it to submitter_keys in board.yaml: {key.public.raw.hex()}"
        )
        return MadeSignature(problems=(problem,))

    if key is not None:
        return MadeSignature(sign_file(submitted, SIGNED_CARD, key).read_bytes())

    if not os.path.lexists(signature_path(card)):
        return MadeSignature()

    data, sha256 = _signature_and_hash(card)
    if not has_key:
        note = "its signature is left out, since the board has no key of this submitter"
        return MadeSignature(notes=(note,))
    if sha256 != sha256_hex(read_bytes(submitted, _MOST_SIGNED_BYTES)):
        problem = (
            "signature: is on the card before secrets were replaced; sign what is submitted with"
            " --key FILE"
        )
        return MadeSignature(problems=(problem,))

    return MadeSignature(data)


def _signature_and_hash(signed: Path) -> tuple[bytes, str]:
    """Return the bytes of a signature file, and the SHA-256 of what it is on."""
    try:
        data = read_bytes(signature_path(signed), _MOST_BYTES)
        return data, sha256_hex(read_bytes(signed, _MOST_SIGNED_BYTES))
    except CardError as error:
        raise SignatureError(str(error)) from error
