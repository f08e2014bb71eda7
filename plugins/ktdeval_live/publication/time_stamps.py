"""Time stamps for the chain's head by an authority (RFC 3161), stored as files of the test."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from ktdeval.errors import VerificationError, wrap_os_error
from ktdeval.runner import MAX_STAMP_BYTES, request_stamp, verified_time
from ktdeval.values import make_folder, read_plain, sha256_hex, write_atomic
from ktdeval_live.plan import Stamping
from ktdeval_live.record.folder import STAMPS


def stamp_head(folder: Path, number: int, head: str, rule: Stamping) -> tuple[str, datetime]:
    """Have the head of a chain stamped for a publication; return the stamp's file name and its
    timestamp.

    Raises StoreError if the authority can't be reached; VerificationError if its response is
    invalid.
    """
    answer, time = request_stamp(head, rule)
    name = f"{STAMPS}/{number:06d}.tsr"
    make_folder(folder / STAMPS)
    write_atomic(folder / name, answer)
    return name, time


def stamp_time(folder: Path, name: str, head: str, rule: Stamping) -> datetime:
    """Return the time, in UTC, of a stored stamp of a head.

    Raises VerificationError if the stamp is not from the authority, or covers a different head.
    """
    return verified_time(_read_stored(folder, name), head, rule, name)


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
        return read_plain(folder / name, MAX_STAMP_BYTES)
