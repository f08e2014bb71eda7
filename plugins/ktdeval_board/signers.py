"""Keys listed in `board.yaml`: those of maintainers, who sign verdicts; of submitters, who sign
cards and registrations; and of authorities, who time-stamp forward tests.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ktdeval.cards import PublicKey, public_key
from ktdeval.errors import SignatureError
from ktdeval.values import Value
from ktdeval_board.document_types import Contact, Line, Sha256


class Signer(Value, frozen=True, kw_only=False):
    """Maintainer whose signature on a verdict counts."""

    name: Line  #: Name that readers see
    key: Sha256  #: Public Ed25519 key, 64 hexadecimal digits, as `ktdeval card keygen` prints it

    def public_key(self) -> PublicKey:
        """Return the key. Raises SignatureError if it is not canonical or has a small order."""
        return public_key(bytes.fromhex(self.key), f"signers: {self.name}")


class SubmitterKey(Value, frozen=True, kw_only=False):
    """Key of a submitter, whose new cards and registrations must be signed by it."""

    name: Line  #: Name of the submitter, as in submissions
    key: Sha256  #: Public Ed25519 key, 64 hexadecimal digits, as `ktdeval card keygen` prints it
    #: Contact of the submitter, as in submissions; submissions with this contact must be signed
    #: with the key, too
    contact: Contact | None = None
    #: Whether the key is retired, for example after a loss; its earlier signatures stay valid
    retired: bool = False

    def public_key(self) -> PublicKey:
        """Return the key. Raises SignatureError if it is not canonical or has a small order."""
        return public_key(bytes.fromhex(self.key), f"submitter_keys: {self.name}")


class TimeAuthority(Value, frozen=True, kw_only=False):
    """Authority whose time stamps on forward tests count: `ktdeval live verify TEST --trust
    board.yaml`.
    """

    name: Line  #: Name that readers see
    sha256: (
        Sha256  #: SHA-256 of its root certificate in DER, as printed by `openssl x509 -fingerprint`
    )


def submitter_key_problems(keys: Sequence[SubmitterKey]) -> Iterator[str]:
    """Yield problems with the submitters' keys. A submitter may have several keys."""
    yield from _key_problems("submitter_keys", keys)


def signer_problems(signers: Sequence[Signer], is_required: bool) -> Iterator[str]:
    """Yield problems with a board's signers."""
    if is_required and not signers:
        yield "verdict_signatures: required, but signers names no key; add one"

    yield from _key_problems("signers", signers)


def _key_problems(field: str, keys: Sequence[Signer] | Sequence[SubmitterKey]) -> Iterator[str]:
    seen = set[str]()
    for each in keys:
        if each.key in seen:
            yield f"{field}: the key of {each.name} appears twice"

        seen.add(each.key)
        try:
            each.public_key()
        except SignatureError as error:
            yield str(error)
