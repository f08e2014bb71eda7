"""Versions of the file formats that ktdeval uses for files that outlive a process.

`formats.csv` has a row for every version of each format that has ever existed. The row gives the
release that first wrote the version (empty: before the first release), and whether this ktdeval
reads it. The version of a format is raised if an existing file could no longer be read with its
intended meaning; a new optional field does not require this.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import msgspec

import ktdeval
from ktdeval.errors import KtdevalError, StoreError
from ktdeval.values.disk.files import csv_rows
from ktdeval.values.documents.typed_json import decode_json


@dataclass(frozen=True, slots=True)
class FormatVersion:
    """One version of a file format."""

    version: int
    #: first release of ktdeval that wrote this version, such as `0.1`; empty: before the first
    #: release
    release: str
    is_read: bool  #: whether this ktdeval reads this version
    carried_by: str  #: where a file states its version, for the docs
    covers: str  #: what the version applies to, for the docs


@cache
def formats() -> Mapping[str, tuple[FormatVersion, ...]]:
    """Return all versions of each format, keyed by the format's name, oldest first."""
    found: dict[str, list[FormatVersion]] = {}
    for row in csv_rows(Path(__file__).with_name("formats.csv")):
        version = FormatVersion(
            int(row["version"]),
            row["release"],
            row["is_read"] == "yes",
            row["carried_by"],
            row["covers"],
        )
        found.setdefault(row["format"], []).append(version)

    return {name: tuple(versions) for name, versions in found.items()}


def format_version(name: str) -> int:
    """Return the version of a format that this ktdeval writes."""
    return formats()[name][-1].version


def stated_version(head: Mapping[str, msgspec.Raw], where: str) -> object:
    """Return the version given in the field `version` of a file's JSON object; None if the field is
    missing. Raises StoreError if the version is not JSON.
    """
    return decode_json(bytes(head.get("version", b"null")), object, f"{where}: version")


def check_version(
    name: str,
    found: object,
    where: object,
    advice: str,
    error: type[KtdevalError] = StoreError,
) -> None:
    """Raise `error`, with a message on one line, if a file has a format version that this ktdeval
    can't read. `found` is the version given in the file, `where` names the file, and `advice` says
    what to do.
    """
    versions = formats()[name]
    readable = [each.version for each in versions if each.is_read]
    if type(found) is int and found in readable:
        return

    reads = " or ".join(map(str, readable))
    raise error(
        f"{where}: made by {_maker(found, versions)}; ktdeval {ktdeval.__version__} can't read it:"
        f" it is version {_shown_version(found)} of a {name}, not {reads}; {advice}"
    )


def check_stated(
    name: str, document: object, where: object, advice: str, error: type[KtdevalError]
) -> None:
    """Raise as `check_version` does if the document gives a different `schema_version`. If the
    document gives no version, or one that is not a number, the check of its type reports this.
    """
    if isinstance(document, Mapping):
        stated = document.get("schema_version")
        if type(stated) is int:
            check_version(name, stated, where, advice, error)


def _maker(found: object, versions: tuple[FormatVersion, ...]) -> str:
    """Return the software that wrote a file of the given version."""
    if type(found) is not int:
        return "another program, or an early ktdeval"
    if found > versions[-1].version:
        return "a later ktdeval"
    for each in versions:
        if each.version == found and each.release:
            return f"ktdeval {each.release}"

    return f"a ktdeval before {versions[-1].release}"


def _shown_version(found: object) -> str:
    """Return a version as quoted in messages."""
    return "none" if found is None else f"{found!r:.20}"
