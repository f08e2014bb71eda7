"""Versions of the file formats that ktdeval writes to files that outlive a process.

`formats.csv` has a row for every version of each format that ever existed: the release that first
wrote it (empty: before the first release), and whether this ktdeval reads it. A version is raised
when an existing file could no longer be read with its intended meaning; a new optional field does
not raise it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import msgspec

import ktdeval
from ktdeval.errors import KtdevalError, StoreError
from ktdeval.values.files import csv_rows
from ktdeval.values.typed_json import decode_json


@dataclass(frozen=True, slots=True)
class FormatVersion:
    """One version of a format."""

    version: int
    release: str  #: ktdeval that first wrote it, such as `0.1`; empty: before the first release
    is_read: bool  #: whether this ktdeval reads it
    carried_by: str  #: where a file states its version, for the docs
    covers: str  #: what the version applies to, for the docs


@cache
def formats() -> Mapping[str, tuple[FormatVersion, ...]]:
    """Return all versions of each format, keyed by its name, oldest first."""
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
    """Return the version in which this ktdeval writes a format."""
    return formats()[name][-1].version


def stated_version(head: Mapping[str, msgspec.Raw], where: str) -> object:
    """Return the version that a file reports in the field `version` of its JSON object; None if the
    field is missing. Raises StoreError if it is not JSON.
    """
    return decode_json(bytes(head.get("version", b"null")), object, f"{where}: version")


def check_version(
    name: str,
    found: object,
    where: object,
    advice: str,
    error: type[KtdevalError] = StoreError,
) -> None:
    """Raise `error`, on one line, if a file has a format version that this ktdeval can't read.
    `found`: the version that the file reports; `where`: the file; `advice`: what to do.
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
    """Raise as `check_version` does if a document reports a different `schema_version`; if it
    reports none, or not a number, this is left to the check of its type.
    """
    if isinstance(document, Mapping):
        stated = document.get("schema_version")
        if type(stated) is int:
            check_version(name, stated, where, advice, error)


def _maker(found: object, versions: tuple[FormatVersion, ...]) -> str:
    """Return who wrote a file of the given version."""
    if type(found) is not int:
        return "another program, or an early ktdeval"
    if found > versions[-1].version:
        return "a later ktdeval"
    for each in versions:
        if each.version == found and each.release:
            return f"ktdeval {each.release}"

    return f"a ktdeval before {versions[-1].release}"


def _shown_version(found: object) -> str:
    """Return a version as quoted in a message."""
    return "none" if found is None else f"{found!r:.20}"
