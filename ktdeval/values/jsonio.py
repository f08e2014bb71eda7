"""Strict JSON, content hashes, atomic files and folders, and locks, for every file that ktdeval
writes.
"""

from __future__ import annotations

import errno
import fcntl
import io
import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self, TypeAlias

from ktdeval.errors import StoreError, explained
from ktdeval.values.temporary import sweep, temporary_file, temporary_folder, try_lock

if TYPE_CHECKING:
    import msgspec

if TYPE_CHECKING:
    JsonValue: TypeAlias = (
        "bool | int | float | str | Sequence[JsonValue] | Mapping[str, JsonValue] | None"
    )
else:
    # msgspec and `get_type_hints` evaluate annotations, and cannot resolve a recursive alias.
    JsonValue = Any

JsonObject = Mapping[str, JsonValue]
TOO_DEEP = "it is nested too deeply"  #: what is wrong with JSON that can't be read for its depth
MAX_DEPTH = 64  #: levels of a model's JSON that are read
MOST_LEVELS = 150  #: of a card or a record: code that walks through them recurses at each level
MOST_PARSED_LEVELS = 600  #: of any JSON: how deep Python itself reads depends on its version
_LIST_SIGNS = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS = bytes(set(range(256)).difference(b'[]{}"'))
# at once: for more hashlib lets another thread run, which takes longer than to hash a prompt
_HASHED_BYTES = 2047
_BUFFER_BYTES = 1 << 18  # lines of a journal have 15 kB and more
_TEXT = frozenset({str})
_EXACT = frozenset({str, int, bool, type(None)})
_SCALARS = _EXACT | {float}
_NESTED = frozenset({dict, list, tuple})


def dumps_canonical(value: JsonValue) -> str:
    """Compact JSON with sorted keys: equal values give equal text. NaN and infinity raise
    ValueError.
    """
    return dumps_compact(value, sort_keys=True)


def dumps_compact(value: JsonValue, sort_keys: bool = False) -> str:
    """Compact JSON, exactly as `json` writes it. NaN and infinity raise ValueError."""
    try:
        if _is_usual(value):
            return str(_encoder(sort_keys).encode(value), "utf-8")
    except (UnicodeEncodeError, RecursionError):  # a lone surrogate, or too deep
        pass
    return json.dumps(
        value, sort_keys=sort_keys, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def _is_usual(value: JsonValue) -> bool:
    """Whether msgspec, which is several times faster, writes a value as `json` does: they differ in
    numbers with an exponent, in NaN, and in what is not quite JSON.
    """
    kind = type(value)
    items: Iterable[Any]
    if isinstance(value, dict) and kind is dict:
        if not _TEXT.issuperset(map(type, value)):
            return False

        items = value.values()
    elif isinstance(value, list | tuple) and kind in _NESTED:
        items = value
    else:
        items = (value,)

    # in C where there is no number with a fraction and nothing nested, as in most objects
    if _EXACT.issuperset(map(type, items)):
        return True

    for item in items:
        kind = type(item)
        if kind is float:
            if not (1e-4 <= abs(item) < 1e16 or item == 0.0):
                return False
        elif kind not in _EXACT and not (kind in _NESTED and _is_usual(item)):
            return False

    return True


@cache
def _encoder(sort_keys: bool) -> msgspec.json.Encoder:
    import msgspec  # noqa: PLC0415 - `ktdeval --help` writes no JSON

    return msgspec.json.Encoder(order="sorted" if sort_keys else None)


def dumps_pretty(value: JsonValue) -> str:
    """Indented JSON with sorted keys and a final newline, for files that people read."""
    import msgspec  # noqa: PLC0415 - `ktdeval --help` writes no JSON

    # As `json.dumps(indent=1)`, which is four times slower: its encoder in C does not indent.
    return msgspec.json.format(dumps_canonical(value), indent=1) + "\n"


def plain(value: Any) -> JsonValue:
    """Return mappings as dicts and sequences as lists, at all levels; other values unchanged, for
    JSON to refuse.
    """
    if isinstance(value, list | tuple):
        return [item if type(item) in _SCALARS else plain(item) for item in value]
    if isinstance(value, (dict, Mapping)):  # dict first: asking an abstract class is slow
        return {key: item if type(item) in _SCALARS else plain(item) for key, item in value.items()}

    other: JsonValue = value
    return other


def reject_constant(token: str) -> NoReturn:
    """Raise ValueError for `NaN` and infinities: a `parse_constant` of `json`."""
    raise ValueError(f"{token} is no JSON number")


class DoubledFieldError(ValueError):
    """An object has a field twice."""


def unique_fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Raise DoubledFieldError for an object that has a field twice: an `object_pairs_hook` of
    `json`.
    """
    members = dict(pairs)
    if len(members) != len(pairs):
        names = [name for name, _ in pairs]
        raise DoubledFieldError(
            f"field {next(name for name in names if names.count(name) > 1)[:80]!r} stands twice in"
            " one object"
        )
    return members


def bounded_int(token: str) -> int:
    """Raise ValueError for an integer that does not fit 64 bits: a `parse_int` of `json`."""
    if len(token) > 20 or not -(1 << 63) <= (number := int(token)) < 1 << 63:
        raise ValueError(f"an integer of {len(token)} digits does not fit 64 bits")
    return number


def _finite(token: str) -> float:
    number = float(token)
    if number - number != 0:
        raise ValueError(f"{token[:20]} is too large for a number")
    return number


def loads_strict(text: str | bytes) -> JsonValue:
    """Parse JSON; `NaN`, `Infinity`, `-Infinity` and too deep a nesting raise ValueError as any
    other malformed text does.
    """
    return _parse_json(text, _STRICT)


def loads_unique(text: str) -> JsonValue:
    """Parse JSON as `loads_strict`, without doubled fields. Raises DoubledFieldError for these,
    ValueError.
    """
    return _parse_json(text, _UNIQUE)


def loads_untrusted(text: str | bytes, levels: int = MOST_PARSED_LEVELS) -> JsonValue:
    """Parse untrusted JSON: as `loads_strict`, and without doubled fields, huge integers and
    infinite numbers. Raises ValueError where it is not strict JSON, or nested deeper than so many
    levels.
    """
    return _parse_json(text, _UNTRUSTED, levels)


_STRICT = json.JSONDecoder(parse_constant=reject_constant)
_UNIQUE = json.JSONDecoder(parse_constant=reject_constant, object_pairs_hook=unique_fields)
_UNTRUSTED = json.JSONDecoder(
    parse_constant=reject_constant,
    object_pairs_hook=unique_fields,
    parse_float=_finite,
    parse_int=bounded_int,
)


def _parse_json(
    text: str | bytes, decoder: json.JSONDecoder, levels: int = MOST_PARSED_LEVELS
) -> JsonValue:
    if not isinstance(text, str):
        text = text.decode(json.detect_encoding(text), "surrogatepass")  # as `json.loads`

    if text.startswith("\ufeff"):
        raise ValueError("begins with a byte order mark; save it as UTF-8 without one")

    try:
        value: JsonValue = decoder.decode(text)
    except RecursionError:
        raise ValueError(TOO_DEEP) from None

    if not is_nested_within(text, levels):
        raise ValueError(TOO_DEEP)

    return value


def is_flat(value: JsonValue, levels: int) -> bool:
    """Whether lists and objects are nested at most so many levels deep; never recurses."""
    level = [value]
    for _ in range(levels):
        containers = [item for item in level if isinstance(item, Mapping | list)]
        level = [
            inner
            for item in containers
            for inner in (item.values() if isinstance(item, Mapping) else item)
        ]
        if not level:
            return True

    return False


def is_nested_within(text: str | bytes, levels: int) -> bool:
    """Whether lists and objects of JSON text (as bytes, in UTF-8) are nested at most so many levels
    deep; what a text that is no JSON opens and never closes counts as further levels. Takes a
    fraction of the time of parsing it.
    """
    if isinstance(text, str):
        if text.count("[") + text.count("{") <= levels:
            return True

        text = text.encode("utf-8", "surrogatepass")

    if text.count(b"[") + text.count(b"{") <= levels:
        return True

    signs = text.replace(b"\\\\", b"").replace(b'\\"', b"").translate(_LIST_SIGNS, _NO_BRACKETS)
    brackets = b"".join(signs.replace(b'""', b"").split(b'"')[::2])  # those outside of strings
    for level in range(levels + 1):
        left = brackets.replace(b"[]", b"")  # the innermost level
        if len(left) == len(brackets):
            return level + left.count(b"[") <= levels

        brackets = left

    return False


def sha256_hex(data: bytes | str) -> str:
    """SHA-256 of bytes, or of the UTF-8 form of text, as 64 hexadecimal digits."""
    import hashlib  # noqa: PLC0415 - with `tempfile` a twelfth of what `ktdeval --help` takes

    data = data.encode() if isinstance(data, str) else data
    digest = hashlib.sha256()
    piece = _HASHED_BYTES if len(data) < _BUFFER_BYTES else len(data)

    for start in range(0, len(data), piece):
        digest.update(data[start : start + piece])

    return digest.hexdigest()


def content_hash(value: JsonValue) -> str:
    """SHA-256 of the canonical JSON of `value`."""
    return sha256_hex(dumps_canonical(value))


def open_plain(path: Path, follow: bool = True) -> io.BufferedReader:
    """Open a plain file for reading, behind links only where `follow` says so: the way to read what
    a stranger may have put there. Raises OSError where it can't be read, or is a pipe, a device or
    a socket, which could keep a reader waiting for ever.
    """
    try:
        # O_NONBLOCK: opening a pipe would wait for someone to write into it.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW))
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISREG(mode):
            return io.BufferedReader(io.FileIO(descriptor), _BUFFER_BYTES)

        os.close(descriptor)
    except OSError as error:
        if error.errno == errno.ELOOP and not follow:
            raise OSError(errno.ELOOP, "is a link, no plain file", str(path)) from None
        if error.errno != errno.ENXIO:  # a socket
            raise

        mode = stat.S_IFSOCK

    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))

    raise OSError(errno.EINVAL, "is no plain file but a pipe, a device or a socket", str(path))


def read_plain(path: Path, most: int | None = None) -> bytes:
    """Bytes of a plain file; errors as of `open_plain`, and OSError where it has more than `most`
    bytes.
    """
    with open_plain(path) as stream:
        data = stream.read() if most is None else stream.read(most + 1)
    if most is not None and len(data) > most:
        raise OSError(errno.EFBIG, f"has more than {most} bytes", str(path))
    return data


def csv_rows(path: Path) -> list[dict[str, str]]:
    """Rows of a table that ships with the code, by column name."""
    import csv  # noqa: PLC0415 - most commands read no table

    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))


def file_sha256(path: Path) -> str:
    """SHA-256 of the bytes of a plain file; errors as of `open_plain`."""
    import hashlib  # noqa: PLC0415 - as above

    with open_plain(path) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def sync_folder(path: Path) -> None:
    """Make a file's content, or renames and creations in a folder, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Closing:
    """Base of what is closed at the end of a `with` block."""

    def close(self) -> None:
        """Release what is held."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def make_folder(path: Path, advice: str = "choose another") -> None:
    """Make a folder and those above it. Raises StoreError: it can't be made; `advice` is its last
    words.
    """
    with explained(f"{path}: can't make the folder", advice):
        path.mkdir(parents=True, exist_ok=True)


OutputKind = Literal["file", "folder", "new folder"]


def check_output(path: Path, kind: OutputKind, option: str, mark: str | None = None) -> None:
    """Test whether an output can be written, before the work on it begins. What is there is left as
    it is.

    `kind`: a `new folder` must be absent, empty, or hold a file `mark`. Folders above may be
    absent, if they can be made. Raises StoreError: it is of another kind, or nothing can be written
    there.
    """
    advice = f"choose another {option}"
    with explained(f"{path}: can't be written", advice):
        is_folder = path.is_dir()
        if kind == "file" and is_folder:
            raise StoreError(f"{path}: is a folder, not a file; {advice}")
        if kind != "file" and not is_folder and os.path.lexists(path):
            raise StoreError(f"{path}: is a file, not a folder; {advice}")

        is_marked = mark is not None and (path / mark).exists()
        if kind == "new folder" and is_folder and not is_marked and any(path.iterdir()):
            raise StoreError(f"{path}: holds something else; {advice}, or empty it")

        # A rename replaces a file, so that the folder around it is what must be writable.
        above = path if is_folder else path.parent
        while not os.path.lexists(above):
            above = above.parent

        if not above.is_dir():
            raise StoreError(f"{path}: {above} is a file, not a folder; {advice}")

        import tempfile  # noqa: PLC0415 - see `ktdeval.values.temporary`: slow to import

        probe = tempfile.mkdtemp(prefix=".ktdeval-probe-", dir=above)
        Path(probe).rmdir()
        with suppress(FileNotFoundError):
            path.lstat()  # a name may be too long


@contextmanager
def locked(folder: Path, *, wait: bool = False) -> Iterator[None]:
    """Hold a folder's lock, which ends with the process. Raises StoreError: another process holds
    it and this one is not to `wait`, or the folder can't be opened.
    """
    with explained(f"{folder}: can't open the folder"):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)

    try:
        if wait:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        elif not try_lock(descriptor):
            raise StoreError(f"{folder}: another process writes it; wait until it has ended")

        yield
    finally:
        os.close(descriptor)


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Give a temporary folder, which becomes `folder` (absent or empty) when the block ends well,
    unless the block removes it. What killed processes left behind is removed first. Raises OSError:
    it can't be made, made durable or renamed.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with temporary_folder(_temporary_prefix(folder), folder.parent) as temporary:
        # A folder inside, since the temporary one is readable by its owner only.
        inside = temporary / "content"
        inside.mkdir()
        yield inside

        if inside.exists():
            sync_files(
                inside, (path.relative_to(inside) for path in inside.rglob("*") if path.is_file())
            )
            inside.rename(folder)
            sync_folder(folder.parent)


def sweep_new_folder(folder: Path) -> None:
    """Remove what killed processes left that were about to make a folder with `new_folder`."""
    sweep(folder.parent, _temporary_prefix(folder))


def _temporary_prefix(folder: Path) -> str:
    return f".{folder.name}.new-"


def sync_files(folder: Path, files: Iterable[Path | str]) -> None:
    """Make some files of a folder durable, with the folders between. Raises OSError: it can't be
    done.
    """
    paths = [folder / file for file in files]
    between = {
        parent
        for path in paths
        for parent in path.parents
        if parent == folder or folder in parent.parents
    }
    for path in [*sorted(paths), *sorted(between, reverse=True)]:
        sync_folder(path)


def write_atomic(path: Path, data: bytes | str) -> None:
    """Write a file so that a crash leaves either the old content or the new, durably; StoreError
    where it can't be written.
    """
    content = data.encode() if isinstance(data, str) else data
    try:
        if path.exists() and not path.is_file():  # /dev/null would be gone afterwards
            raise OSError(errno.EEXIST, "there is something that is no plain file", str(path))

        with temporary_file(path) as (temporary, descriptor):
            with os.fdopen(descriptor, "wb", closefd=False) as stream:
                stream.write(content)

            # Temporary files are private; what we write is for others to read.
            os.fchmod(descriptor, 0o644)
            os.fsync(descriptor)
            temporary.replace(path)

        sync_folder(path.parent)
    except OSError as error:
        raise StoreError(
            f"{path}: can't write: {error.strerror or error}; free space or choose another folder"
        ) from error
