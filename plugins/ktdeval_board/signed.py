"""Signatures on a board: maintainers sign verdicts, and submitters sign cards and registrations.
Each signature is a file next to the signed one, `<id>.json.sig`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ktdeval.cards import (
    SIGNED_CARD,
    SIGNED_REGISTRATION,
    SIGNED_VERDICT,
    PrivateKey,
    check_envelope,
    parse_envelope,
    public_key,
    sign_file,
    signature_path,
)
from ktdeval.errors import CardError, SignatureError
from ktdeval.runner import DrawnKey, Registrant
from ktdeval.values import sha256_hex
from ktdeval_board.document_types import Submitter
from ktdeval_board.look_alike_names import Party, holder_of, holders_by_mark, mark_of_name, pair_of
from ktdeval_board.read_documents import read_bytes
from ktdeval_board.rules import Rules
from ktdeval_board.signers import SubmitterKey

_MAX_BYTES = 65_536  # maximum size of a signature file
_MAX_SIGNED_BYTES = 100_000_000  # maximum size of a card or verdict; other rules set closer limits


@dataclass(frozen=True, slots=True)
class SignedFile:
    """A kind of file that submitters sign."""

    predicate: Any  #: Predicate of the signature, which states what the signature claims
    noun: str
    verb: str  #: What a submitter does with the file; also the name of the command that signs it


CARD = SignedFile(SIGNED_CARD, "card", "submit")
REGISTRATION = SignedFile(SIGNED_REGISTRATION, "registration", "register")


def verdict_signers(verdict: Path, rules: Rules) -> tuple[str, ...]:
    """Return the names of a verdict's signers; empty if it has no signature file.

    Raises SignatureError if the signature file is malformed, covers different bytes, or is not from
    one of the board's signers. On a board without signers, signature files are ignored.
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
    """Return whether a verdict lacks a signature that the board requires. Raises the same errors as
    `verdict_signers`.
    """
    signers = verdict_signers(verdict, rules)
    return rules.verdict_signatures == "required" and not signers


def keys_of(submitter: Registrant | Submitter, rules: Rules) -> Mapping[str, SubmitterKey]:
    """Return the keys that a board has for a submitter, keyed by key id. These are the keys of each
    holder whose name or contact the submitter uses, ignoring spelling.
    """
    holders = _holders_of(submitter, rules)
    own = [each for each in rules.submitter_keys if holder_of(each) in holders]
    return {each.public_key().id: each for each in own}


def _holders_of(submitter: Registrant | Submitter, rules: Rules) -> set[Party]:
    by_mark = holders_by_mark(rules.submitter_keys)
    return {by_mark[mark] for mark in pair_of(submitter) if mark in by_mark}


def _signing_keys(
    file: Path, what: SignedFile, submitter: Registrant | Submitter, rules: Rules
) -> tuple[SubmitterKey, ...]:
    """Return the keys with which a submitter signed a file; empty if the file has no signature
    file.

    Raises SignatureError if the signature file is malformed, covers different bytes, or was made
    with a key that the board does not have for this submitter.
    """
    if not os.path.lexists(signature_path(file)):
        return ()

    data, sha256 = _signature_and_hash(file)
    where = signature_path(file).name
    own = keys_of(submitter, rules)
    if not own:
        raise SignatureError(
            f"{where}: the board has no key of {submitter.name} to verify it; ask its "
            "maintainers to add yours to submitter_keys in board.yaml, or remove the signature"
        )

    others = {each.public_key().id: each.name for each in rules.submitter_keys}
    signed = [signature.keyid for signature in parse_envelope(data, where).signatures]
    foreign = [others[key_id] for key_id in signed if key_id in others]
    if foreign and not any(key_id in own for key_id in signed):
        raise SignatureError(
            f"{where}: was made by {foreign[0]}, but {submitter.name} {what.verb}s; a {what.noun} "
            f"must be signed by the submitter who {what.verb}s it"
        )

    trusted = {key_id: each.public_key() for key_id, each in own.items()}
    ids = check_envelope(data, sha256, what.predicate, trusted, where)
    return tuple(own[key_id] for key_id in ids)


def _missing_signature(
    file: Path, what: SignedFile, submitter: Registrant | Submitter, rules: Rules
) -> str:
    """Return a message about the signature that a file lacks; empty if none is missing.

    Each key holder whose name or contact the submitter uses must have signed. Raises the same
    errors as `_signing_keys`.
    """
    keys = _signing_keys(file, what, submitter, rules)
    signed = {holder_of(each) for each in keys if not each.retired}
    for each in keys_of(submitter, rules).values():
        if holder_of(each) in signed:
            continue

        whose = f"{each.name}, whose contact it gives and"
        if mark_of_name(each.name) == mark_of_name(submitter.name):
            whose = f"{submitter.name},"

        if any(holder_of(key) == holder_of(each) for key in keys):
            return f"is signed with a retired key of {each.name}; sign with the new one"

        return (
            f"the board has a key of {whose} who did not sign this {what.noun}; sign it with"
            f" `ktdeval leaderboard {what.verb} … --key FILE`"
        )

    return ""


def card_signers(card: Path, submitter: Submitter, rules: Rules) -> tuple[str, ...]:
    """Return the submitter's name if the card is signed with a key that the board has for the
    submitter; empty if the card has no signature file. Raises SignatureError if the signature is
    invalid.
    """
    keys = _signing_keys(card, CARD, submitter, rules)
    return tuple(dict.fromkeys(each.name for each in keys))


def missing_card_signature(card: Path, submitter: Submitter, rules: Rules) -> str:
    """Return a message about the signature that a new card lacks; empty if none is missing. Raises
    the same errors as `card_signers`.
    """
    return _missing_signature(card, CARD, submitter, rules)


def registration_key(
    path: Path, submitter: Registrant, drawn: DrawnKey | None, rules: Rules
) -> str:
    """Return the public key, in hexadecimal, with which a registration was signed; empty if it is
    unsigned.

    If the mask key has been drawn, this is the public key that the board verified at the time of
    the draw, whatever keys the board lists now. Raises SignatureError if the signature is invalid.
    """
    if drawn is not None:
        return drawn.signed_by or ""

    keys = _signing_keys(path, REGISTRATION, submitter, rules)
    return next((each.key for each in keys if not each.retired), "")


def registration_signature_problem(
    path: Path, submitter: Registrant, drawn: DrawnKey | None, rules: Rules
) -> str:
    """Return the problem with a registration's signature, which may be that it is missing; empty if
    it is valid. Raises SignatureError if the signature is invalid.
    """
    if drawn is None:
        return _missing_signature(path, REGISTRATION, submitter, rules)

    has_file = os.path.lexists(signature_path(path))
    if drawn.signed_by is None:
        return "was signed after its key was drawn, which has no effect" if has_file else ""
    if not has_file:
        return f"was signed when its key was drawn; restore {signature_path(path).name}"

    data, sha256 = _signature_and_hash(path)
    where = signature_path(path).name
    key = public_key(bytes.fromhex(drawn.signed_by), where)
    check_envelope(data, sha256, SIGNED_REGISTRATION, {key.id: key}, where)
    return ""


@dataclass(frozen=True)
class MadeSignature:
    """Signature of a card being submitted."""

    data: bytes | None = None  #: content of the signature file; None if there is no signature
    problems: tuple[str, ...] = ()  #: why the signature can't be made
    notes: tuple[str, ...] = ()  #: notes for the submitter


def signature_of(
    card: Path, submitted: Path, has_key: bool, key: PrivateKey | None
) -> MadeSignature:
    """Sign a card in its submitted form with a key, or reuse its existing signature.

    `card` is the card's file in the run. `submitted` is its submitted form, which differs if a
    secret was replaced. `has_key` says whether the board has a key for the submitter. Raises
    SignatureError if the signature next to the card can't be read.
    """
    if key is not None and not has_key:
        problem = (
            "signature: the board has no key of this submitter to verify it; ask its "
            f"maintainers to add it to submitter_keys in board.yaml: {key.public.raw.hex()}"
        )
        return MadeSignature(problems=(problem,))

    if key is not None:
        return MadeSignature(sign_file(submitted, SIGNED_CARD, key).read_bytes())

    if not os.path.lexists(signature_path(card)):
        return MadeSignature()

    data, sha256 = _signature_and_hash(card)
    if not has_key:
        note = "its signature is omitted, since the board has no key of this submitter"
        return MadeSignature(notes=(note,))
    if sha256 != sha256_hex(read_bytes(submitted, _MAX_SIGNED_BYTES)):
        problem = (
            "signature: covers the card before secrets were replaced; sign the submitted card "
            "with --key FILE"
        )
        return MadeSignature(problems=(problem,))

    return MadeSignature(data)


def _signature_and_hash(signed: Path) -> tuple[bytes, str]:
    """Return the bytes of a signature file and the SHA-256 of the signed file."""
    try:
        data = read_bytes(signature_path(signed), _MAX_BYTES)
        return data, sha256_hex(read_bytes(signed, _MAX_SIGNED_BYTES))
    except CardError as error:
        raise SignatureError(str(error)) from error
