"""SHA-256 of text, JSON values and files."""

from __future__ import annotations

from pathlib import Path

from ktdeval.values.disk.files import BUFFER_BYTES, open_plain
from ktdeval.values.documents.strict_json import JsonValue, dumps_canonical

# maximum bytes to hash at once: for longer input, hashlib releases the interpreter lock, which takes
# longer than hashing a prompt
_HASHED_BYTES = 2047


def sha256_hex(data: bytes | str) -> str:
    """Return the SHA-256 of bytes, or of a string encoded as UTF-8, as 64 hexadecimal digits."""
    import hashlib  # noqa: PLC0415 - with `tempfile` a twelfth of what `ktdeval --help` takes

    data = data.encode() if isinstance(data, str) else data
    digest = hashlib.sha256()
    piece = _HASHED_BYTES if len(data) < BUFFER_BYTES else len(data)

    for start in range(0, len(data), piece):
        digest.update(data[start : start + piece])

    return digest.hexdigest()


def content_hash(value: JsonValue) -> str:
    """Return the SHA-256 of the canonical JSON of `value`."""
    return sha256_hex(dumps_canonical(value))


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a regular file's bytes. Raises as `open_plain` does."""
    import hashlib  # noqa: PLC0415 - as above

    with open_plain(path) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
