"""Strict JSON, content hashes and atomic files: the one way in and out for everything ktdeval writes."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any, NoReturn

from ktdeval.errors import StoreError

JsonValue = Any  # str | int | float | bool | None | list[JsonValue] | dict[str, JsonValue]

_FILE_MODE = 0o644


def dumps_canonical(value: JsonValue) -> str:
    """Compact JSON with sorted keys: equal values give equal text. NaN and infinity raise ValueError."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def dumps_pretty(value: JsonValue) -> str:
    """Indented JSON with sorted keys and a final newline, for files that people read."""
    return json.dumps(value, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _reject_constant(token: str) -> NoReturn:
    raise ValueError(f"{token} is not JSON")


def loads_strict(text: str | bytes) -> JsonValue:
    """Parse JSON; `NaN`, `Infinity` and `-Infinity` raise ValueError as any other malformed text does."""
    return json.loads(text, parse_constant=_reject_constant)


def sha256_hex(data: bytes | str) -> str:
    """SHA-256 of bytes, or of the UTF-8 form of text, as 64 hexadecimal digits."""
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()


def content_hash(value: JsonValue) -> str:
    """SHA-256 of the canonical JSON of `value`."""
    return sha256_hex(dumps_canonical(value))


def file_sha256(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def sync_folder(folder: Path) -> None:
    """Make a rename or creation in `folder` durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_atomic(path: Path, data: bytes | str) -> None:
    """Write a file so that a crash leaves either the old content or the new, durably.

    Raises:
        StoreError: the disk is full, the folder is read-only or missing.
    """
    payload = data.encode() if isinstance(data, str) else data
    temporary: Path | None = None
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as stream:
            temporary = Path(stream.name)
            stream.write(payload)
            os.fchmod(stream.fileno(), _FILE_MODE)  # temporary files are private; what we write is for others to read
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        raise StoreError(f"{path}: can't write: {error.strerror or error}; free space or choose another folder") from error
