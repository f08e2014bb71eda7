"""Read a board's documents, and generate JSON Schemas from their classes.

A document from outside may be hostile. It is therefore read strictly and within a size limit, and
errors name the field in a single line.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ktdeval.cards import card_kinds, field_docs, struct_types
from ktdeval.errors import CardError, os_reason
from ktdeval.runner import DrawnKey, Registration
from ktdeval.values import (
    JsonValue,
    Value,
    check_stated,
    dumps_pretty,
    from_plain,
    json_schema,
    loads_untrusted,
    open_plain,
    read_plain,
)
from ktdeval_board.anchored_heads import AnchoredHead
from ktdeval_board.document_types import Decisions, Imported, Records, Series, Submission, Verdict
from ktdeval_board.errata import Errata
from ktdeval_board.market_document import Market
from ktdeval_board.rules import Rules

T = TypeVar("T")

DOCUMENTS: Mapping[str, type[Value]] = {
    "submission": Submission,
    "records": Records,
    "verdict": Verdict,
    "series": Series,
    "decisions": Decisions,
    "market": Market,
    "imported": Imported,
    "registration": Registration,
    "key": DrawnKey,
    "anchored-head": AnchoredHead,
    "board": Rules,
    "errata": Errata,
}
"""Documents whose schemas belong to this package. The schemas of cards belong to the suite."""


def schema_of(name: str) -> dict[str, JsonValue]:
    """Return the JSON Schema (draft 2020-12) of a document."""
    type_ = DOCUMENTS[name]
    title = " ".join((type_.__doc__ or "").split())
    # Any: the nesting of a JSON Schema has no fixed depth.
    schema: dict[str, Any] = json_schema(type_, f"urn:ktdeval:board:{name}:1", title)
    for key, part in struct_types(type_).items():
        properties = schema["$defs"][key]["properties"]
        for field, sentence in field_docs(part).items():
            properties[field]["description"] = sentence

    return schema


def schema_texts() -> dict[str, str]:
    """Return a board's schemas, keyed by file name: first the schemas of this package, then those
    of cards.
    """
    texts = {f"{name}-v1.json": dumps_pretty(schema_of(name)) for name in sorted(DOCUMENTS)}
    for kind in card_kinds().values():
        texts[kind.schema.name] = kind.schema.read_text(encoding="utf-8")

    return texts


def write_schemas(folder: Path) -> None:
    """Write the schemas to a board's schema folder."""
    for name, text in schema_texts().items():
        (folder / name).write_text(text, encoding="utf-8")


class OversizeError(CardError):
    """Raised for a document that is larger than allowed and was therefore not read."""


def read_bytes(path: Path, max_bytes: int) -> bytes:
    """Return the bytes of a file. Raises OversizeError, without reading the file, if it is too
    large. Raises CardError if it is a link or not a regular file.
    """
    try:
        with open_plain(path, follow=False) as stream:
            size = os.fstat(stream.fileno()).st_size
            if size > max_bytes:
                raise OversizeError(
                    f"{path}: has {size:,} bytes; at most {max_bytes:,} are allowed"
                )

            return stream.read(max_bytes)
    except OSError as error:
        raise CardError(f"{path}: can't read: {os_reason(error)}") from error


def read_text(path: Path, max_bytes: int) -> str:
    """Return the text of a file. Raises the same errors as `read_bytes`."""
    try:
        return read_bytes(path, max_bytes).decode("utf-8")
    except UnicodeDecodeError as error:
        raise CardError(f"{path}: is not UTF-8 text at byte {error.start}") from error


def parse_untrusted(text: str, where: str) -> JsonValue:
    """Parse strict JSON from outside. Raises CardError if it is invalid. `where` names the file in
    the error message.
    """
    try:
        return loads_untrusted(text)
    except ValueError as error:
        raise CardError(f"{where}: is not strict JSON: {error}") from error


def read_untrusted(path: Path, type_: type[T], max_bytes: int) -> T:
    """Read a document from outside. Raises CardError, with file and field, if it can't be read or
    decoded.
    """
    value = parse_untrusted(read_text(path, max_bytes), str(path))
    check_stated("board", value, path, "use the ktdeval that wrote it", CardError)
    return from_plain(value, type_, str(path), CardError)


def read_own(path: Path, type_: type[T]) -> T:
    """Read a document that the board's check wrote. Raises CardError if it can't be read or
    decoded.
    """
    try:
        return decode_own(read_plain(path), type_, path)
    except OSError as error:
        raise CardError(f"{path}: can't read: {os_reason(error)}") from error


def decode_own(
    data: bytes,
    type_: type[T],
    path: Path,
    advice: str = "run `ktdeval leaderboard check --all` to write it again",
) -> T:
    """Decode the bytes of a document that the board's check wrote. Raises the same errors as
    `read_own`.
    """
    try:
        return msgspec.json.decode(data, type=type_)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CardError(
            f"{path}: is not JSON as the check writes it ({error}); {advice}"
        ) from error
