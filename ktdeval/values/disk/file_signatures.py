"""File formats, detected from the first bytes regardless of the file name, with advice for each
format.
"""

from __future__ import annotations

import codecs
import re

GZIP = b"\x1f\x8b"
PARQUET = b"PAR1"
ZIP = b"PK\x03\x04"
SIGNATURE_BYTES = 2**10  #: bytes at the start of a file that identify its format

_PAGE = "a web page: download the file again"
_XML = "XML, as of a server's error: download the file again"
_PACKED = "packed: unpack it first"
_ARCHIVE = "an archive: unpack it first"
_ANY = (
    (b"BZh", _PACKED),
    (b"\xfd7zXZ", _PACKED),
    (b"\x28\xb5\x2f\xfd", _PACKED),
    (b"7z\xbc\xaf", _ARCHIVE),
    (b"Rar!", _ARCHIVE),
    (b"version https://git-lfs", "a pointer to a file: get that by git lfs pull"),
    (b"/annex/objects/", "a pointer to a file: get that by git annex get"),
    (b"<!doctype", _PAGE),
    (b"<html", _PAGE),
    (b"<head", _PAGE),
    (b"<body", _PAGE),
    (b"<script", _PAGE),
    (b"<error", _XML),
    (b"<?xml", _XML),
    (GZIP, _PACKED),
    (ZIP, _ARCHIVE),  # workbooks are distinguished from other archives by their contents
)
"""First bytes, and the format of the file; the advice applies whatever the file should contain."""

_FRAME = "save it as .csv or .parquet"
_TABLES = (
    (PARQUET, "a Parquet file: unpack it first, and name it .parquet"),
    (b"\xd0\xcf\x11\xe0", "an old workbook: save it as .xlsx or .csv"),
    (b"ARROW1", f"an Arrow file: {_FRAME}"),
    (b"FEA1", f"a Feather file: {_FRAME}"),
    (b"\x89HDF", f"an HDF5 file: {_FRAME}"),
    (b"SQLite format 3", f"a database: {_FRAME}"),
    (b"%PDF", "a PDF: download the table as .csv"),
    (b"<table", "a table of a web page: save it as .xlsx or .csv"),
)
"""As above, with advice for files that should be tables."""

_MARKS = ((codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_OBJECT = re.compile(r'\{\s*(?:["}]|$)')
_LIST = re.compile(r'\[\s*[\[{"]|\[\s*\]\s*$')
_KEY = re.compile(r"(?=\w*[0-9])(?=\w*[A-Za-z])[\w-]{12,}|[A-Z0-9]{16,}")
_SHOWN = 120  # maximum number of characters shown of a text


def other_kind(head: bytes, *, table: bool = True) -> str:
    """Return a description of the non-text format to which a file's first bytes belong, with
    advice; empty if the file may be text. `table` says whether the file should contain a table; if
    not, JSON is accepted.
    """
    text = _as_utf8(head).lstrip()
    lower = text[:40].lower()
    for start, words in _ANY:
        if lower.startswith(start.lower()):
            return words

    if head[257:262] == b"ustar":
        return _ARCHIVE

    for start, words in _TABLES:
        if lower.startswith(start.lower()):
            return words if table else words.partition(":")[0]

    return _of_json(text.decode("utf-8", "replace")) if table else ""


def first_words(text: str) -> str:
    """Return the start of a text on one line, without anything that may be a key."""
    line = _KEY.sub("[...]", " ".join(text.split()))
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN].rstrip()} ..."


def _as_utf8(head: bytes) -> bytes:
    """Return the first bytes of a file as UTF-8 if they are UTF-16; otherwise without a byte order
    mark.
    """
    for mark, encoding in _MARKS:
        if head.startswith(mark):
            return head.decode(encoding, "ignore").encode("utf-8", "ignore")
    return head.removeprefix(codecs.BOM_UTF8)


def _of_json(text: str) -> str:
    """Return a description of JSON text. A single object is usually a server's response, such as an
    error.
    """
    shown = first_words(text)
    if _OBJECT.match(text):
        return f"JSON ({shown}): download the table again, as .csv"
    if _LIST.match(text):
        return f"JSON ({shown}): save it as .csv"

    return ""
