"""State of an installation: what it has, what it lacks, and what is broken. Names of keys are
looked at, never their values.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import ktdeval
from ktdeval.cli import terminal_width
from ktdeval.errors import KtdevalError
from ktdeval.plugins.registry import KINDS, load_plugins
from ktdeval.runner import cache_folder
from ktdeval.values.typed import Value

State = Literal["ok", "absent", "broken"]

LEAST_FREE_BYTES = 1 << 30
"""Room that a run of all embedded tasks with its cache takes, about."""

_LEAST_PYTHON = (3, 11)
_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome", "firefox")
_EXTRA = re.compile(r"""extra\s*==\s*["']([\w.-]+)["']""")
_REQUIREMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_DEVELOPMENT = "dev"
_KEY = re.compile(r"\b[A-Z][A-Z0-9_]*_(API_KEY|TOKEN)(_[A-Z]+)?\b")


class Check(Value):
    """State of one part of an installation."""

    name: str
    state: State  #: `absent`: optional, and not there
    detail: str
    fix: str = ""  #: what to do where it is broken or wanted


def checks(environment: Mapping[str, str]) -> list[Check]:
    """Return the state of everything, in the order shown. `environment`: variables by name."""
    return [
        _python(),
        Check(name="ktdeval", state="ok", detail=ktdeval.__version__),
        *_extras(),
        *_keys(environment),
        *_folders(),
        _terminal(),
        *_plugins(),
        _browser(),
    ]


def _python() -> Check:
    detail = f"{platform.python_version()} ({sys.executable})"
    if sys.version_info >= _LEAST_PYTHON:
        return Check(name="python", state="ok", detail=detail)
    return Check(name="python", state="broken", detail=detail, fix="install Python 3.11 or newer")


def _extras() -> Iterator[Check]:
    """Yield each extra: present if all packages are there that it alone adds."""
    packages: dict[str, list[str]] = {}
    for line in importlib.metadata.requires("ktdeval") or ():
        extra = _EXTRA.search(line)
        package = _REQUIREMENT.match(line)
        if extra is not None and package is not None and package[0] != "ktdeval":
            packages.setdefault(extra[1], []).append(package[0])

    for name, names in sorted(packages.items()):
        if name == _DEVELOPMENT:
            continue

        missing = [name for name in names if not _is_installed(name)]
        if missing:
            yield Check(
                name=f"extra {name}",
                state="absent",
                detail=f"lacks {', '.join(missing)}",
                fix=f"pip install 'ktdeval[{name}]'",
            )
        else:
            yield Check(name=f"extra {name}", state="ok", detail=", ".join(names))


def _is_installed(package: str) -> bool:
    try:
        importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _keys(environment: Mapping[str, str]) -> Iterator[Check]:
    """Yield the variables that models of the installed plugins name, seen or not."""
    for name in sorted(_key_names()):
        if environment.get(name):
            yield Check(name=f"key {name}", state="ok", detail="seen")
        elif name in environment:
            yield Check(
                name=f"key {name}", state="broken", detail="empty", fix="unset it, or give the key"
            )
        else:
            yield Check(name=f"key {name}", state="absent", detail="not set")


def _key_names() -> set[str]:
    plugins = load_plugins()
    words = " ".join(spec.summary for spec in plugins.specs("models").values())
    return {match[0] for match in _KEY.finditer(words)}


def _folders() -> Iterator[Check]:
    yield _folder("cache", cache_folder())
    yield _folder("disk", Path.cwd())


def _folder(name: str, folder: Path) -> Check:
    """Return whether a folder, or the nearest one above that is there, can be written and has
    room.
    """
    there = folder
    while not there.exists() and there != there.parent:
        there = there.parent

    try:
        with tempfile.TemporaryFile(dir=there):
            pass
        free = shutil.disk_usage(there).free
    except OSError as error:
        return Check(
            name=name,
            state="broken",
            detail=f"{folder}: {error.strerror or error}",
            fix="let this user write it, or name another folder",
        )

    detail = f"{folder}, {free / 1e9:.1f} GB free"
    if free < LEAST_FREE_BYTES:
        fix = "free space, or `ktdeval cache prune`"
        return Check(name=name, state="broken", detail=detail, fix=fix)
    return Check(name=name, state="ok", detail=detail)


def _terminal() -> Check:
    encoding = (getattr(sys.stdout, "encoding", "") or "none").lower()
    kind = "terminal" if os.isatty(1) else "no terminal"
    detail = f"{kind}, {terminal_width()} columns, {encoding}"
    if encoding.startswith("utf"):
        return Check(name="terminal", state="ok", detail=detail)

    fix = "set PYTHONUTF8=1: characters that the encoding lacks are written as ?"
    return Check(name="terminal", state="absent", detail=detail, fix=fix)


def _plugins() -> Iterator[Check]:
    """Yield how many plugins load, and each one that does not."""
    try:
        plugins = load_plugins()
        for kind in KINDS:
            plugins.specs(kind)
    except KtdevalError as error:
        fix = "`ktdeval plugin check` says where; correct or uninstall it"
        yield Check(name="plugins", state="broken", detail=str(error), fix=fix)
        return

    yield Check(name="plugins", state="ok", detail=f"{len(plugins.info)} load")
    for name, problem in sorted(plugins.broken.items()):
        yield Check(
            name=f"plugin {name}",
            state="broken",
            detail=problem,
            fix="correct or uninstall the package that advertises it",
        )


def _browser() -> Check:
    found = [name for name in _BROWSERS if shutil.which(name)]
    if found:
        return Check(name="browser", state="ok", detail=found[0])

    detail = "none on the path; pages of runs and boards are files for any browser"
    return Check(name="browser", state="absent", detail=detail)


def is_broken(found: Sequence[Check]) -> bool:
    """Whether something is broken, other than absent."""
    return any(check.state == "broken" for check in found)
