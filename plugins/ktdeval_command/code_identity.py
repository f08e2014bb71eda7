"""Identity of an agent, based on its bytes. The agent is a program with its package, or Python code
with the files that it imports from its own folder. Two versions of an agent are two systems, even
if they share a name.
"""

from __future__ import annotations

import ast
import functools
import inspect
import json
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ktdeval.values import JsonValue, content_hash, file_sha256

_MAX_WRAPPERS = 8
_MAX_WRAPPER_BYTES = 64 << 10
_INTERPRETERS = re.compile(r"(python|pypy|node|deno|bun|ruby|perl|bash|dash|sh|env)[0-9.]*")
_INSTALLED = ("site-packages", "dist-packages")
#: last program in a shell script: an absolute path, or a path relative to the script
_EXEC = re.compile(
    r"^\s*exec\s+[\"']?(?P<whole>/[^\s\"'$]+)"
    r"|[\"']?(?:\$\{?\w+\}?|\$\(dirname [^)]*\))/(?P<beside>[^\s\"'$]+)",
    re.MULTILINE,
)


@dataclass(frozen=True)
class ProgramIdentity:
    """Identity of the program that a command line runs."""

    sha256: str  #: hash of the program's files and package
    version: str  #: package and version; empty if unknown


def program_identity(words: Sequence[str]) -> ProgramIdentity | None:
    """Return the identity of the program in a command line: its file behind links and wrapper
    scripts, its package, and the files whose absolute paths are among the arguments. Return None if
    the program is not found, or if it is an interpreter that runs files with their own hash.
    """
    found = shutil.which(words[0])
    if found is None:
        return None

    named = [Path(word) for word in words[1:] if word.startswith("/")]
    files: dict[str, JsonValue] = {}
    for path in named:
        if path.is_file():
            files |= imported_files(path)

    program = Path(found).resolve()
    package = ""
    if not (_INTERPRETERS.fullmatch(program.name) and len(words) > 1):
        for path in _behind(program):
            files[path.name] = _hash(path)
            package = _package_of(path) or package
    if not files:
        return None
    return ProgramIdentity(content_hash({"files": files, "package": package}), package)


def code_identity(function: Callable[..., Any]) -> str | None:
    """Return the hash of a function's file together with the files that it imports from its own
    folder; None if the function has no file.
    """
    while isinstance(function, functools.partial):
        function = function.func
    function = inspect.unwrap(function)
    try:
        path = Path(inspect.getfile(function if hasattr(function, "__code__") else type(function)))
    except (TypeError, OSError):
        return None
    return content_hash(imported_files(path)) if path.is_file() else None


# ---- a program


def _behind(program: Path) -> Iterator[Path]:
    """Yield a program's file. If the file is a shell script, also yield the program that it starts,
    and so on.
    """
    for _ in range(_MAX_WRAPPERS):
        yield program
        target = _target(program)
        if target is None or target == program:
            return
        program = target


def _target(path: Path) -> Path | None:
    """Return the program that a shell script starts; None if the file is not a script, or if the
    program can't be found.
    """
    if path.stat().st_size > _MAX_WRAPPER_BYTES:
        return None
    text = path.read_bytes().decode("utf-8", "replace")
    if not re.match(r"#!.*\b(?:ba|da|z)?sh\b", text):
        return None

    for found in reversed(list(_EXEC.finditer(text))):
        named = found["whole"] or str(path.parent / found["beside"])
        if Path(named).is_file():
            return Path(named).resolve()
    return None


def _hash(path: Path) -> str:
    found = path.stat()
    return _hash_as_of(path, found.st_size, found.st_mtime_ns, found.st_ino)


@lru_cache(maxsize=64)  # each episode has a separate agent, and a program may have 200 MB
def _hash_as_of(path: Path, _size: int, _changed: int, _inode: int) -> str:
    return file_sha256(path)


def _package_of(path: Path) -> str:
    """Return the package of a file and its version. The package is npm's, or a Python package whose
    RECORD lists the file.
    """
    for folder in path.parents:
        try:
            package = json.loads((folder / "package.json").read_bytes())
            return f"{package['name']} {package['version']}"
        except (OSError, ValueError, TypeError, KeyError):
            continue

    installed = f"../../../{path.parent.name}/{path.name},"
    for record in path.parent.parent.glob("lib/python3*/site-packages/*.dist-info/RECORD"):
        if installed in record.read_text(encoding="utf-8", errors="replace"):
            name, _, version = record.parent.name.removesuffix(".dist-info").rpartition("-")
            return f"{name} {version} {_hash(record)[:12]}"
    return ""


# ---- Python code


def imported_files(path: Path) -> dict[str, JsonValue]:
    """Return the hash of a file and, if it is Python, of all files that it imports from its own
    folder or package. The hashes are keyed by path in that folder or package.
    """
    path = path.resolve()
    own = root = path.parent
    while (root / "__init__.py").is_file():
        own, root = root, root.parent
    if own.name in _INSTALLED:
        own = path  # a module installed among other packages

    hashes: dict[str, JsonValue] = {}
    waiting = [path]
    while waiting:
        file = waiting.pop()
        name = file.relative_to(root).as_posix()
        if name in hashes or not file.is_relative_to(own):
            continue
        hashes[name] = _hash(file)
        if file.suffix == ".py":
            waiting += _imports(file, root)
    return hashes


def _imports(file: Path, root: Path) -> Iterator[Path]:
    """Yield the files below a root folder that a file imports anywhere in its code."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError, RecursionError):
        return

    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _module_files(root, alias.name)
        elif isinstance(node, ast.ImportFrom):
            base = root
            if node.level:
                base = file.parents[node.level - 1]
            if not base.is_relative_to(root):
                continue
            yield from _module_files(base, node.module or "")
            for alias in node.names:
                module = f"{node.module}.{alias.name}" if node.module else alias.name
                yield from _module_files(base, module)


def _module_files(base: Path, module: str) -> Iterator[Path]:
    """Yield the existing files of a module below a folder, and the files of its parent packages."""
    place = base
    for part in filter(None, module.split(".")):
        place = place / part
        for file in (place / "__init__.py", place.with_suffix(".py")):
            if file.is_file():
                yield file
