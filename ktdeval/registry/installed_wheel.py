"""Wheel of this installation, for containers that must run the same code.

It is built from the installed files, so no package index is needed. An editable installation is
packed from its source folders.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path

from ktdeval.errors import UsageError, wrap_os_error
from ktdeval.values.hashes import sha256_hex

_PROJECT = "ktdeval"
_ADVICE = "to make a wheel of it, first run `pip install .` in the folder of its sources"
_NOT_OF_A_WHEEL = frozenset({"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"})
_TIME = (1980, 1, 1, 0, 0, 0)  # earliest date that a zip archive can store
_MODE = 0o644 << 16


@dataclass(frozen=True)
class Wheel:
    """Wheel whose bytes depend only on the installed files."""

    name: str
    content: bytes

    @property
    def sha256(self) -> str:
        """SHA-256 of the contents, in hexadecimal digits."""
        return sha256_hex(self.content)


@cache
def own_wheel() -> Wheel:
    """Return a wheel of this installation, which is built once per process.

    Raises UsageError if ktdeval is not installed. Raises StoreError if one of its files can't be
    read.
    """
    try:
        installed = metadata.distribution(_PROJECT)
    except metadata.PackageNotFoundError as error:
        raise UsageError(f"ktdeval runs from a folder, and is not installed; {_ADVICE}") from error

    files: dict[str, bytes] = {}
    for name, path in sorted(_files_of(installed)):
        with wrap_os_error(f"{path}: can't be read"):
            files[name] = path.read_bytes()

    if f"{_PROJECT}/__init__.py" not in files:
        raise UsageError(f"ktdeval's installation does not list its files; {_ADVICE}")

    stem = f"{_PROJECT}-{installed.version}"
    files[f"{stem}.dist-info/RECORD"] = _record(files, f"{stem}.dist-info/RECORD")
    return Wheel(f"{stem}-py3-none-any.whl", _archive(files))


def _files_of(installed: metadata.Distribution) -> Iterator[tuple[str, Path]]:
    """Yield the files of an installation, each with its name in a wheel."""
    for file in installed.files or ():
        path = Path(str(installed.locate_file(file)))
        if path.suffix == ".pth":  # part of an editable installation
            for line in path.read_text(encoding="utf-8").splitlines():
                yield from _files_of_sources(Path(line))
        elif _is_of_wheel(file):
            yield file.as_posix(), path


def _files_of_sources(root: Path) -> Iterator[tuple[str, Path]]:
    """Yield the files of the project's packages in a source folder, excluding tests. The
    documentation pages are included; a wheel stores them in the main package.
    """
    for page in (root / "docs").rglob("*.md"):
        yield f"{_PROJECT}/{page.relative_to(root).as_posix()}", page

    for package in sorted(root.glob(f"{_PROJECT}*")):
        if not (package / "__init__.py").is_file():
            continue

        for path in package.rglob("*"):
            name = path.relative_to(root)
            if name.parts[1] != "tests" and path.is_file() and _is_of_wheel(name):
                yield name.as_posix(), path


def _is_of_wheel(file: Path | metadata.PackagePath) -> bool:
    """Return whether an installed file came from a wheel. Scripts, bytecode, hidden files, files
    written by pip and the build file of `ktdeval/facts` did not.
    """
    is_note = file.parts[0].endswith(".dist-info") and file.name in _NOT_OF_A_WHEEL
    is_hidden = any(part.startswith(".") for part in file.parts)  # also excludes `..`
    is_build_file = file.as_posix() == "ktdeval/facts/pyproject.toml"
    return not (is_note or is_hidden or is_build_file or "__pycache__" in file.parts)


def _record(files: dict[str, bytes], own_name: str) -> bytes:
    """Return the contents of a wheel's RECORD, which lists its files with their hashes and
    sizes.
    """
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    for name, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        rows.writerow((name, f"sha256={digest}", len(content)))

    rows.writerow((own_name, "", ""))
    return text.getvalue().encode()


def _archive(files: dict[str, bytes]) -> bytes:
    """Return a zip archive of the files. Equal files give equal bytes."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, _TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = _MODE
            archive.writestr(entry, content)

    return packed.getvalue()
