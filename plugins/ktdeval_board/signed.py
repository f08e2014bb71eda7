"""Signatures of maintainers on verdicts: `verdicts/<card id>.json.sig`, next to the verdict."""

from __future__ import annotations

import os
from pathlib import Path

from ktdeval.cards import SIGNED_VERDICT, check_envelope, signature_path
from ktdeval.errors import CardError, SignatureError
from ktdeval.values.jsonio import sha256_hex
from ktdeval_board.reading import read_bytes
from ktdeval_board.rules import Rules

_MOST_BYTES = 65_536  # of a signature file
_MOST_VERDICT_BYTES = 100_000_000


def verdict_signers(verdict: Path, rules: Rules) -> tuple[str, ...]:
    """Return the names of the signers of a verdict; none if it has no signature file.

    Raises SignatureError: its signature file is malformed, on other bytes, or of no signer of the
    board. On a board without signers, signature files are ignored.
    """
    target = signature_path(verdict)
    if not rules.signers or not os.path.lexists(target):
        return ()

    try:
        data = read_bytes(target, _MOST_BYTES)
        sha256 = sha256_hex(read_bytes(verdict, _MOST_VERDICT_BYTES))
    except CardError as error:
        raise SignatureError(str(error)) from error

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
