"""Time-stamping authorities that a reader trusts.

A record itself names the authority for its stamps, and its maker may have created that authority.
Whether the stamps prove anything is therefore up to the reader.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ktdeval.cards.fields.base_types import Name, Sha256
from ktdeval.cards.table_types import clean
from ktdeval.errors import ConfigError, KtdevalError
from ktdeval.runner.records.time_stamps import (
    StampAuthority,
    certificate_of,
    certificates_of,
)
from ktdeval.values.disk.files import read_plain
from ktdeval.values.documents.typed_json import Value, from_plain
from ktdeval.values.documents.yamlio import load_yaml

if TYPE_CHECKING:
    import cryptography.x509

_BOARD_SUFFIXES = (".yaml", ".yml")


class TimeAuthority(Value, frozen=True):
    """Authority that made time stamps, by its root certificate."""

    subject: Name  #: of the certificate, as the authority calls itself
    sha256: Sha256  #: fingerprint: SHA-256 of the certificate in DER


class _Listed(Value):
    """Authority listed by a board."""

    name: str
    sha256: Sha256


@dataclass(frozen=True)
class TrustedRoots:
    """Root certificates that a reader trusts, by fingerprint."""

    fingerprints: frozenset[str] = frozenset()

    def holds(self, rule: StampAuthority | None) -> bool:
        """Return whether the stamps of an authority are checked against one of these roots.

        Raises ConfigError if the authority's certificate is invalid.
        """
        return rule is not None and authority_of(rule).sha256 in self.fingerprints


NOBODY = TrustedRoots()
"""Trust of a reader who specified no roots: used for cards and pages, which can't know their
readers.
"""


def plan_trust(rule: StampAuthority | None) -> TrustedRoots:
    """Return the trust of a reader who trusts the authority that a record names. Raises
    ConfigError.
    """
    if rule is None:
        return NOBODY
    return TrustedRoots(frozenset([authority_of(rule).sha256]))


def authority_of(rule: StampAuthority) -> TimeAuthority:
    """Return an authority by its root certificate. Raises ConfigError if it is invalid."""
    certificate = certificate_of(rule.certificate)
    subject = certificate.subject.rfc4514_string() or "without a name"
    return TimeAuthority(subject=subject, sha256=_fingerprint(certificate))


def authority_words(authority: TimeAuthority, is_trusted: bool) -> str:
    """Return an authority as printable text, since its name may come from untrusted files."""
    words = "which you trust"
    if not is_trusted:
        words = "which you do not trust yet (--trust)"
    return clean(f"{authority.subject}, SHA-256 {authority.sha256}, {words}")


def _fingerprint(certificate: cryptography.x509.Certificate) -> str:
    from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415 - the extra `live`
        Encoding,
    )

    return hashlib.sha256(certificate.public_bytes(Encoding.DER)).hexdigest()


def load_trust(path: Path) -> TrustedRoots:
    """Read the root certificates that a reader trusts, from a PEM file or from `time_authorities`
    in a board's `board.yaml`.

    Raises ConfigError if the file contains no certificate.
    """
    if path.suffix in _BOARD_SUFFIXES:
        return TrustedRoots(_listed_fingerprints(path))

    try:
        text = read_plain(path).decode("ascii")
    except (KtdevalError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: is not a file in PEM: {error}") from error
    return TrustedRoots(frozenset(map(_fingerprint, certificates_of(text, str(path)))))


def _listed_fingerprints(path: Path) -> frozenset[str]:
    """Return the fingerprints that a board lists."""
    rules = load_yaml(path)
    field = "time_authorities"
    listed = rules.get(field) if isinstance(rules, dict) else None
    if not listed:
        raise ConfigError(
            f"{path}: {field}: names no authority; add one (name, sha256), or give a root"
            " certificate in PEM"
        )

    found = from_plain(listed, tuple[_Listed, ...], f"{path}: {field}", ConfigError)
    return frozenset(one.sha256 for one in found)
