"""Time stamps of hashes by an authority (RFC 3161).

To readers who trust the authority, a stamp proves that the hash existed at the stamped time. It
covers the SHA-512 of the hash's 64 hexadecimal digits. The authority receives only this and a
random number.
"""

from __future__ import annotations

import urllib.error
import urllib.request
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ktdeval.errors import (
    ConfigError,
    KtdevalError,
    StoreError,
    UsageError,
    VerificationError,
)
from ktdeval.values.disk.files import read_plain
from ktdeval.values.documents.typed_json import Value
from ktdeval.values.installation import import_problem, install_command
from ktdeval.values.options.user_input import user_path
from ktdeval.values.requests.secret_free_addresses import Address

if TYPE_CHECKING:
    import cryptography.x509

_TIMEOUT_S = 30
MAX_STAMP_BYTES = 1 << 20  #: maximum size of an authority's response


class StampAuthority(Value):
    """Time-stamping authority (RFC 3161), and the certificates that verify its stamps."""

    url: Address
    #: root certificate of the authority: path of a PEM file, relative to the file that names it;
    #: in a record, the file's contents
    certificate: str
    #: signing certificate of the authority, given in the same way. Responses are then requested
    #: without certificates: some authorities (such as openssl's) send several in an order that DER
    #: does not allow
    signer: str | None = None


def read_certificates(authority: StampAuthority, beside: Path, where: str) -> dict[str, str]:
    """Return the contents of an authority's certificate files, keyed by field. The files are
    relative to the folder of `beside`.

    Raises ConfigError, with a message that starts with `where`, if a file can't be read.
    """
    texts = {}
    for field in ("certificate", "signer"):
        name = getattr(authority, field)
        if name is None:
            continue

        try:
            texts[field] = read_plain(beside.parent / user_path(name)).decode("ascii")
        except (KtdevalError, OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{where}{field}: {error}") from error

    return texts


def request_stamp(head: str, authority: StampAuthority) -> tuple[bytes, datetime]:
    """Have a hash stamped; return the authority's response and its time, in UTC.

    Raises StoreError if the authority can't be reached; VerificationError if its response is
    invalid.
    """
    client = _client()
    builder = client.TimestampRequestBuilder().data(head.encode()).nonce()
    builder = builder.hash_algorithm(client.HashAlgorithm.SHA512)
    # If the signer's certificate is known, the response need not contain it.
    request = builder.cert_request(cert_request=authority.signer is None).build()
    answer = _ask(authority.url, request.as_bytes())
    return answer, verified_time(answer, head, authority, f"{authority.url}: its stamp")


def _ask(url: str, request: bytes) -> bytes:
    if not url.startswith(("http://", "https://")):
        raise ConfigError(f"url of stamps: expected http:// or https://, was {url[:40]!r}")

    headers = {"Content-Type": "application/timestamp-query"}
    try:
        asked = urllib.request.Request(url, data=request, headers=headers)  # noqa: S310 - checked above
        with urllib.request.urlopen(asked, timeout=_TIMEOUT_S) as response:  # noqa: S310 - as above
            answer: bytes = response.read(MAX_STAMP_BYTES)
    except (urllib.error.URLError, OSError) as error:
        raise StoreError(f"{url}: the time-stamping authority can't be reached: {error}") from error
    return answer


def verified_time(answer: bytes, head: str, authority: StampAuthority, where: str) -> datetime:
    """Return the time of a response, in UTC, after verifying it against the authority's root
    certificate.

    Raises VerificationError if the response is not from the authority, or covers a different hash.
    """
    client = _client()
    verifier = client.VerifierBuilder().add_root_certificate(certificate_of(authority.certificate))
    if authority.signer is not None:
        verifier = verifier.tsa_certificate(certificate_of(authority.signer))

    try:
        response = client.decode_timestamp_response(answer)
        verifier.build().verify_message(response, head.encode())
    except (client.VerificationError, ValueError) as error:
        raise VerificationError(f"{where}: is not one of this head: {error}") from error

    time: datetime = response.tst_info.gen_time
    return time.astimezone(UTC)


def certificate_of(pem: str) -> cryptography.x509.Certificate:
    """Return a certificate from PEM text. Raises ConfigError if the text is not a certificate."""
    _client()
    from cryptography import x509  # noqa: PLC0415 - comes with the extra `live`

    try:
        return x509.load_pem_x509_certificate(pem.encode())
    except (ValueError, x509.InvalidVersion) as error:
        raise ConfigError(
            f"certificate of the time-stamping authority: is not a certificate in PEM: {error}"
        ) from error


def certificates_of(pem: str, where: str) -> list[cryptography.x509.Certificate]:
    """Return the certificates in PEM text, at least one.

    Raises ConfigError if it has no certificate.
    """
    _client()
    from cryptography import x509  # noqa: PLC0415 - comes with the extra `live`

    try:
        return x509.load_pem_x509_certificates(pem.encode())
    except (ValueError, x509.InvalidVersion) as error:
        raise ConfigError(f"{where}: has no certificate in PEM: {error}") from error


def _client() -> Any:
    try:
        import rfc3161_client  # noqa: PLC0415 - the extra `live`
    except ImportError as error:
        raise UsageError(
            f"time stamps need the extra live; {import_problem(error, 'rfc3161_client')}:"
            f" {install_command('live')}, or leave the authority out (publish.stamp, --anchor)"
        ) from error
    return rfc3161_client
