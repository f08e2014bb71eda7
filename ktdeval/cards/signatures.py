"""Detached signatures for cards, verdicts and registrations: a DSSE envelope around an in-toto
statement.

The statement gives the SHA-256 of the signed file and says what kind of file it is. A signature
file has only one valid form, canonical JSON, so any changed byte is detected. It has no timestamp,
since a signer's clock would prove nothing.

Sources: the DSSE protocol and envelope v1.0.2 (secure-systems-lab), in-toto Statement v1.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, field

from ktdeval.cards.fields.base_types import Sha256
from ktdeval.cards.signing_keys import PrivateKey, PublicKey
from ktdeval.errors import SignatureError, wrap_os_error
from ktdeval.values.disk.files import read_plain, write_atomic
from ktdeval.values.documents.strict_json import loads_untrusted
from ktdeval.values.documents.typed_json import Value, encode_canonical, from_plain
from ktdeval.values.hashes import file_sha256

SUFFIX = ".sig"  #: suffix of signature files, appended to the full name of the signed file
MAX_BYTES = 65_536  #: maximum size of a signature file
MAX_SIGNATURES = 32

PAYLOAD_TYPE: Literal["application/vnd.in-toto+json"] = "application/vnd.in-toto+json"
Predicate = Literal[
    "urn:ktdeval:signed:card:1",
    "urn:ktdeval:signed:verdict:1",
    "urn:ktdeval:signed:registration:1",
]
SIGNED_CARD: Predicate = "urn:ktdeval:signed:card:1"
SIGNED_VERDICT: Predicate = "urn:ktdeval:signed:verdict:1"
SIGNED_REGISTRATION: Predicate = "urn:ktdeval:signed:registration:1"
Data = Annotated[bytes, Meta(max_length=MAX_BYTES)]  #: base64 in the file


class Digest(Value, frozen=True, kw_only=True):
    """Hash of the signed file's bytes."""

    sha256: Sha256


class Subject(Value, frozen=True, kw_only=True):
    """The signed file. Only its hash identifies it, because its name may change."""

    digest: Digest


class NoFurtherClaim(Value, frozen=True, kw_only=True):
    """Predicate without fields: its type makes the whole claim."""


class Statement(Value, frozen=True, kw_only=True):
    """The signed content: an in-toto statement about one file."""

    type: Literal["https://in-toto.io/Statement/v1"] = field(
        name="_type", default="https://in-toto.io/Statement/v1"
    )
    predicate_type: Predicate = field(name="predicateType")
    subject: Annotated[tuple[Subject, ...], Meta(min_length=1, max_length=1)]
    predicate: NoFurtherClaim = NoFurtherClaim()


class Signature(Value, frozen=True, kw_only=True):
    """One signature, with the id of its key."""

    keyid: Sha256
    sig: Data  #: 64 bytes


class Envelope(Value, frozen=True, kw_only=True):
    """Contents of a signature file."""

    payload: Data  #: The statement in canonical JSON
    payload_type: Literal["application/vnd.in-toto+json"] = field(
        name="payloadType", default=PAYLOAD_TYPE
    )
    signatures: Annotated[tuple[Signature, ...], Meta(min_length=1, max_length=MAX_SIGNATURES)]


def signature_path(signed: Path) -> Path:
    """Return the path of a file's signature file."""
    return signed.with_name(f"{signed.name}{SUFFIX}")


def statement_bytes(sha256: str, predicate: Predicate) -> bytes:
    """Return the unique byte representation of a statement about a file."""
    subject = Subject(digest=Digest(sha256=sha256))
    return encode_canonical(Statement(predicate_type=predicate, subject=(subject,))).encode()


def pre_authentication(payload: bytes) -> bytes:
    """Return the bytes that a key signs: the DSSE encoding of the payload type and payload, each
    preceded by its length.
    """
    kind = PAYLOAD_TYPE.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def envelope_bytes(envelope: Envelope) -> bytes:
    """Return the unique byte representation of a signature file."""
    return (encode_canonical(envelope) + "\n").encode()


def sign(sha256: str, predicate: Predicate, key: PrivateKey) -> Signature:
    """Sign the statement about a file with this SHA-256."""
    made = key.sign(pre_authentication(statement_bytes(sha256, predicate)))
    return Signature(keyid=key.public.id, sig=made)


def parse_envelope(data: bytes, where: str) -> Envelope:
    """Decode a signature file.

    Raises SignatureError if the file is not JSON of this form or not canonical, or if its key ids
    are repeated or out of order.
    """
    if len(data) > MAX_BYTES:
        raise SignatureError(f"{where}: has more than {MAX_BYTES:,} bytes")

    try:
        value = loads_untrusted(data, levels=8)
    except ValueError as error:
        raise SignatureError(f"{where}: is not strict JSON: {error}") from error

    try:
        envelope = from_plain(value, Envelope, where, SignatureError)
    except SignatureError as error:
        raise SignatureError(f"{error}; the file was changed") from error

    try:
        canonical = envelope_bytes(envelope)
    except UnicodeEncodeError as error:
        raise SignatureError(f"{where}: has half a surrogate pair, which is not text") from error

    if canonical != data:
        raise SignatureError(f"{where}: is not in canonical form; the file was changed")

    ids = [signature.keyid for signature in envelope.signatures]
    if ids != sorted(set(ids)):
        raise SignatureError(f"{where}: key ids are doubled or out of order; the file was changed")

    return envelope


def check_envelope(
    data: bytes,
    sha256: str,
    predicate: Predicate,
    trusted: Mapping[str, PublicKey],
    where: str,
) -> tuple[str, ...]:
    """Return the ids of the trusted keys that signed a file with this SHA-256. At least one is
    returned.

    A signature by a trusted key must verify; a signature by an unknown key is ignored. `where`
    names the signature file in messages. Raises SignatureError if the signature file is malformed,
    is about another file, contains an invalid signature by a trusted key, or has no signature by a
    trusted key.
    """
    envelope = parse_envelope(data, where)
    payload = envelope.payload
    if payload != statement_bytes(sha256, predicate):
        raise SignatureError(f"{where}: {_other_statement(payload, sha256, predicate, where)}")

    signed = []
    for signature in envelope.signatures:
        key = trusted.get(signature.keyid)
        if key is None:
            continue

        if not key.has_signed(pre_authentication(payload), signature.sig):
            raise SignatureError(
                f"{where}: the signature of key {signature.keyid[:12]} does not verify; the file"
                " was changed, or another key made it"
            )

        signed.append(signature.keyid)

    if not signed:
        ids = ", ".join(signature.keyid[:12] for signature in envelope.signatures)
        raise SignatureError(
            f"{where}: signed by {ids}, none of which is trusted here; add the signer's public key"
            " if you trust it"
        )

    return tuple(signed)


def sign_file(path: Path, predicate: Predicate, key: PrivateKey) -> Path:
    """Sign a file and return the path of its signature file.

    Other keys' signatures on the same bytes are kept; signatures on earlier bytes are replaced.
    Raises SignatureError if the file or its signature file can't be read, and StoreError if the
    signature file can't be written.
    """
    with wrap_os_error(f"{path}: can't read", kind=SignatureError):
        sha256 = file_sha256(path)

    payload = statement_bytes(sha256, predicate)
    own = sign(sha256, predicate, key)
    signatures = {own.keyid: own}
    target = signature_path(path)
    if target.is_file():
        earlier = parse_envelope(_read_signature_file(target), str(target))
        if earlier.payload == payload:
            signatures = {each.keyid: each for each in earlier.signatures} | signatures

    ordered = tuple(signatures[key_id] for key_id in sorted(signatures))
    write_atomic(target, envelope_bytes(Envelope(payload=payload, signatures=ordered)))
    return target


def check_signature(
    path: Path, predicate: Predicate, trusted: Mapping[str, PublicKey]
) -> tuple[str, ...]:
    """Return the ids of the trusted keys that signed a file. Raises SignatureError if the signature
    file is missing, and in the same cases as `check_envelope`.
    """
    with wrap_os_error(f"{path}: can't read", kind=SignatureError):
        sha256 = file_sha256(path)

    target = signature_path(path)
    if not target.is_file():
        raise SignatureError(f"{path}: is not signed ({target.name} is missing)")

    return check_envelope(_read_signature_file(target), sha256, predicate, trusted, str(target))


def _read_signature_file(path: Path) -> bytes:
    with wrap_os_error(f"{path}: can't read the signature", kind=SignatureError):
        return read_plain(path, MAX_BYTES)


def _other_statement(payload: bytes, sha256: str, predicate: Predicate, where: str) -> str:
    """Return a clause that says how a signed statement differs from the expected statement."""
    try:
        stated = from_plain(loads_untrusted(payload, levels=8), Statement, where, SignatureError)
    except (ValueError, SignatureError):
        return "holds no statement of this suite; the file was changed"

    if stated.predicate_type != predicate:
        return f"is a signature of kind {stated.predicate_type}, expected {predicate}"

    found = stated.subject[0].digest.sha256
    if found != sha256:
        return (
            f"signs another file ({found[:12]}…, this one is {sha256[:12]}…): the signed file"
            " was changed afterwards"
        )

    return "is not in canonical form; the file was changed"
