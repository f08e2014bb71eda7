"""Time stamps for the chain's head by an authority (RFC 3161).

To readers who trust the authority, a stamp proves that the head existed at the stamped time. It
covers the SHA-512 of the head's 64 hexadecimal digits. The authority receives only this hash and a
random number.
"""

from __future__ import annotations

import urllib.error
import urllib.request
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ktdeval.errors import ConfigError, StoreError, UsageError, VerificationError, wrap_os_error
from ktdeval.values import install_command, make_folder, read_plain, sha256_hex, write_atomic
from ktdeval_live.plan import Stamping
from ktdeval_live.record.folder import STAMPS

if TYPE_CHECKING:
    import cryptography.x509

_TIMEOUT_S = 30
_MAX_BYTES = 1 << 20


def stamp_head(folder: Path, number: int, head: str, rule: Stamping) -> tuple[str, datetime]:
    """Have the head of a chain stamped for a publication; return the stamp's file name and its
    timestamp.

    Raises StoreError if the authority can't be reached; VerificationError if its response is
    invalid.
    """
    client = _client()
    builder = client.TimestampRequestBuilder().data(head.encode()).nonce()
    builder = builder.hash_algorithm(client.HashAlgorithm.SHA512)
    # If the signer's certificate is known, the response need not contain it.
    request = builder.cert_request(cert_request=rule.signer is None).build()
    answer = _ask(rule.url, request.as_bytes())
    time = _verified_time(answer, head, rule, f"{rule.url}: its stamp")
    name = f"{STAMPS}/{number:06d}.tsr"
    make_folder(folder / STAMPS)
    write_atomic(folder / name, answer)
    return name, time


def stamp_time(folder: Path, name: str, head: str, rule: Stamping) -> datetime:
    """Return the time, in UTC, of a stored stamp of a head.

    Raises VerificationError if the stamp is not from the authority, or covers a different head.
    """
    return _verified_time(_read_stored(folder, name), head, rule, name)


def stamp_sha256(folder: Path, name: str) -> str:
    """Return the SHA-256 of a stored stamp file, needed because the stamp's signature does not
    cover the whole file.

    Raises VerificationError or StoreError if the file can't be read.
    """
    return sha256_hex(_read_stored(folder, name))


def _read_stored(folder: Path, name: str) -> bytes:
    if Path(name).parent != Path(STAMPS) or Path(name).suffix != ".tsr":
        raise VerificationError(f"{name}: is not a name of a stamp")
    with wrap_os_error(f"{name}: can't be read"):
        return read_plain(folder / name, _MAX_BYTES)


def _ask(url: str, request: bytes) -> bytes:
    if not url.startswith(("http://", "https://")):
        raise ConfigError(f"publish.stamp.url: expected http:// or https://, was {url[:40]!r}")

    headers = {"Content-Type": "application/timestamp-query"}
    try:
        asked = urllib.request.Request(url, data=request, headers=headers)  # noqa: S310 - checked above
        with urllib.request.urlopen(asked, timeout=_TIMEOUT_S) as response:  # noqa: S310 - as above
            answer: bytes = response.read(_MAX_BYTES)
    except (urllib.error.URLError, OSError) as error:
        raise StoreError(f"{url}: the time-stamping authority can't be reached: {error}") from error
    return answer


def _verified_time(answer: bytes, head: str, rule: Stamping, where: str) -> datetime:
    """Return the time in a response after verifying it against the authority's root certificate."""
    client = _client()
    verifier = client.VerifierBuilder().add_root_certificate(certificate_of(rule.certificate))
    if rule.signer is not None:
        verifier = verifier.tsa_certificate(certificate_of(rule.signer))

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
            f"publish.stamp.certificate: is not a certificate in PEM: {error}"
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
            f"time stamps need the extra live: {install_command('live')}, or leave publish.stamp out"
        ) from error
    return rfc3161_client
