"""Ed25519 keys (RFC 8032) for signing cards and verdicts, and the key files.

A private key is stored as PKCS #8 in PEM, readable only by its owner; a public key is stored as
SubjectPublicKeyInfo in PEM. `openssl genpkey -algorithm ed25519` writes the same formats. The
arithmetic is done by `cryptography`, which is imported only when a key is used.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ktdeval.errors import SignatureError, StoreError, UsageError, wrap_os_error
from ktdeval.values.disk.files import read_plain, write_atomic
from ktdeval.values.hashes import sha256_hex
from ktdeval.values.installation import import_problem, install_command

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

PUBLIC_SUFFIX = ".pub"  #: suffix of public key files
MAX_KEY_BYTES = 16_384
KEY_BYTES = 32  #: length of a public key
SIGNATURE_BYTES = 64
_FIELD_PRIME = 2**255 - 19
_SIGN_BIT = 1 << 255
_ORDER_8 = bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05")
_SMALL_ORDER = frozenset(
    {
        0,
        1,
        _FIELD_PRIME - 1,
        int.from_bytes(_ORDER_8, "little"),
        _FIELD_PRIME - int.from_bytes(_ORDER_8, "little"),
    }
)
"""Coordinates y of the points whose order divides 8. A key at such a point accepts forged
signatures.
"""

#: Called without arguments to get the passphrase of an encrypted key
AskPassphrase = Callable[[], str]


@dataclass(frozen=True)
class PublicKey:
    """Validated public key: canonically encoded and not of small order."""

    raw: bytes  #: 32 bytes, as in RFC 8032

    @property
    def id(self) -> str:
        """SHA-256 of the raw key as 64 hexadecimal digits."""
        return sha256_hex(self.raw)

    def has_signed(self, message: bytes, signature: bytes) -> bool:
        """Return whether this key signed exactly these bytes."""
        crypto = _library()
        if len(signature) != SIGNATURE_BYTES:
            return False

        try:
            crypto.ed25519.Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, message)
        except crypto.InvalidSignature:
            return False

        return True

    def to_pem(self) -> bytes:
        """Return the contents of the key file."""
        crypto = _library()
        forms = crypto.serialization
        key = crypto.ed25519.Ed25519PublicKey.from_public_bytes(self.raw)
        pem: bytes = key.public_bytes(forms.Encoding.PEM, forms.PublicFormat.SubjectPublicKeyInfo)
        return pem


class PrivateKey:
    """Private key in memory. Its string form shows only its id."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key

    def __repr__(self) -> str:
        return f"PrivateKey({self.public.id[:12]}…)"

    @classmethod
    def generate(cls) -> PrivateKey:
        """Generate a key from the operating system's randomness."""
        return cls(_library().ed25519.Ed25519PrivateKey.generate())

    @classmethod
    def from_seed(cls, seed: bytes) -> PrivateKey:
        """Return the key for a 32-byte seed, which RFC 8032 calls the private key."""
        return cls(_library().ed25519.Ed25519PrivateKey.from_private_bytes(seed))

    @property
    def public(self) -> PublicKey:
        """The public key of the pair."""
        return PublicKey(self._key.public_key().public_bytes_raw())

    def sign(self, message: bytes) -> bytes:
        """Return the 64-byte signature of a message. Signing is deterministic."""
        return self._key.sign(message)

    def to_pem(self, passphrase: str) -> bytes:
        """Return the contents of the key file, encrypted unless the passphrase is empty."""
        forms = _library().serialization
        encryption = forms.NoEncryption()
        if passphrase:
            encryption = forms.BestAvailableEncryption(passphrase.encode())

        return self._key.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.PKCS8, encryption)


def public_key(raw: bytes, where: str) -> PublicKey:
    """Return the public key with these 32 bytes.

    Raises SignatureError if the length is not 32, if a coordinate is not canonical, or if the point
    has small order, in which case signatures on any message can be forged.
    """
    if len(raw) != KEY_BYTES:
        raise SignatureError(f"{where}: expected a key of {KEY_BYTES} bytes, got {len(raw)}")

    coordinate = int.from_bytes(raw, "little") & (_SIGN_BIT - 1)
    if coordinate >= _FIELD_PRIME:
        raise SignatureError(f"{where}: the key is not in its canonical form; make another one")
    if coordinate in _SMALL_ORDER:
        raise SignatureError(
            f"{where}: the key is a point of small order, which accepts forged signatures; make"
            " another one with `ktdeval card keygen`"
        )

    return PublicKey(raw)


def read_public_key(path: Path) -> PublicKey:
    """Read a public key file. Raises SignatureError if the file can't be read or is not an Ed25519
    public key.
    """
    data = _read_key_file(path)
    if b"PRIVATE KEY" in data:
        raise SignatureError(
            f"{path}: is a private key; name the public one, which `ktdeval card keygen` writes to"
            f" a file ending in {PUBLIC_SUFFIX}"
        )

    crypto = _library()
    try:
        key = crypto.serialization.load_pem_public_key(data)
    except (ValueError, TypeError, crypto.UnsupportedAlgorithm) as error:
        raise SignatureError(f"{path}: is not a public key in PEM; give an Ed25519 one") from error

    if not isinstance(key, crypto.ed25519.Ed25519PublicKey):
        raise SignatureError(f"{path}: is a key of another kind; give an Ed25519 one")

    return public_key(key.public_bytes_raw(), str(path))


def read_public_keys(path: Path) -> dict[str, PublicKey]:
    """Read one public key file, or all `*.pub` files in a folder, and return the keys by id. Raises
    SignatureError if a key can't be read or the folder contains no keys.
    """
    files = [path]
    if path.is_dir():
        files = sorted(path.glob(f"*{PUBLIC_SUFFIX}"))
        if not files:
            raise SignatureError(f"{path}: has no public key (*{PUBLIC_SUFFIX}); put one there")

    keys = [read_public_key(file) for file in files]
    return {key.id: key for key in keys}


def read_private_key(path: Path, passphrase: AskPassphrase) -> PrivateKey:
    """Read a private key file. `passphrase` is called only if the file is encrypted.

    Raises SignatureError if other users may read the file, if the file can't be read or is not an
    Ed25519 key, or if the passphrase is wrong. No message contains any part of the key.
    """
    data = _read_key_file(path)
    with wrap_os_error(f"{path}: can't read", kind=SignatureError):
        mode = stat.S_IMODE(path.stat().st_mode)

    if mode & 0o077:
        raise SignatureError(f"{path}: others may read this private key; run `chmod 600 {path}`")

    crypto = _library()
    secret: bytes | None = None
    if b"ENCRYPTED" in data:
        secret = passphrase().encode()

    try:
        key = crypto.serialization.load_pem_private_key(data, secret)
    except (ValueError, TypeError, crypto.UnsupportedAlgorithm):
        reason = "is not a private key in PEM"
        if secret is not None:
            reason = "can't be decrypted: the passphrase is wrong, or the file is damaged"

        # The cause is suppressed because it could quote the file.
        raise SignatureError(f"{path}: {reason}") from None

    if not isinstance(key, crypto.ed25519.Ed25519PrivateKey):
        raise SignatureError(f"{path}: is a key of another kind; give an Ed25519 one")

    return PrivateKey(key)


def write_key_pair(path: Path, key: PrivateKey, passphrase: str = "") -> Path:
    """Write a private key with mode 0600 and the public key next to it. Return the path of the
    public key.

    Raises UsageError if either file exists, and StoreError if a file can't be written.
    """
    public_path = path.with_name(f"{path.name}{PUBLIC_SUFFIX}")
    for file in (path, public_path):
        if os.path.lexists(file):
            raise UsageError(
                f"{file}: exists already, and keys are never overwritten; choose another file"
            )

    with wrap_os_error(f"{path}: can't write the key", "choose another folder", StoreError):
        # With O_EXCL, the mode applies from the first byte and no link is followed.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(key.to_pem(passphrase))
            stream.flush()
            os.fsync(stream.fileno())

    write_atomic(public_path, key.public.to_pem())
    return public_path


def _read_key_file(path: Path) -> bytes:
    with wrap_os_error(f"{path}: can't read the key", kind=SignatureError):
        return read_plain(path, MAX_KEY_BYTES)


class _CryptographyParts:
    """Parts of `cryptography` used in this module."""

    def __init__(self) -> None:
        from cryptography.exceptions import (  # noqa: PLC0415 - an extra
            InvalidSignature,
            UnsupportedAlgorithm,
        )
        from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - an extra
        from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: PLC0415 - an extra

        self.InvalidSignature = InvalidSignature
        self.UnsupportedAlgorithm = UnsupportedAlgorithm
        self.serialization = serialization
        self.ed25519 = ed25519


def _library() -> _CryptographyParts:
    try:
        return _CryptographyParts()
    except ImportError as error:
        problem = import_problem(error, "cryptography")
        raise UsageError(
            f"signatures need the extra `sign`; {problem}: {install_command('sign')}"
        ) from error
