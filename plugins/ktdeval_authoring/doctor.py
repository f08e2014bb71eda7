"""State of an installation: what is present, absent or broken. The names of keys are checked, but
their values are never shown.
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
from datetime import date
from pathlib import Path
from typing import Literal

import ktdeval
from ktdeval.calls import PRICE_PACKAGE, Package, installed_version, read_price_table
from ktdeval.cards import count, listed_days
from ktdeval.cli import terminal_width
from ktdeval.errors import KtdevalError, os_advice
from ktdeval.registry import KINDS, load_plugins
from ktdeval.runner import cache_folder
from ktdeval.values import Value, install_command

State = Literal["ok", "absent", "broken"]

OLD_DAYS = 180
"""Age in days beyond which prices and cutoffs are shown with advice on how to renew them."""

MIN_FREE_BYTES = 1 << 30
"""Approximate disk space for a run of all embedded tasks, including its cache."""

_MIN_PYTHON = (3, 11)
_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome", "firefox")
_EXTRA = re.compile(r"""extra\s*==\s*["']([\w.-]+)["']""")
_REQUIREMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_DEVELOPMENT = "dev"
_KEY = re.compile(r"\b[A-Z][A-Z0-9_]*_(API_KEY|TOKEN)(_[A-Z]+)?\b")


class Check(Value):
    """State of one part of an installation."""

    name: str
    state: State  #: `absent`: optional, and not installed or set
    detail: str
    fix: str = ""  #: what to do if the part is broken or wanted


def checks(environment: Mapping[str, str], day: date) -> list[Check]:
    """Return the state of each part, in the order shown. `environment`: environment variables,
    keyed by name; `day`: today.
    """
    return [
        _python(),
        Check(name="ktdeval", state="ok", detail=ktdeval.__version__),
        *_extras(),
        *_keys(environment),
        *_price_checks(day),
        _cutoffs(day),
        *_folders(),
        _terminal(),
        *_plugins(),
        _browser(),
    ]


def _python() -> Check:
    detail = f"{platform.python_version()} ({sys.executable})"
    if sys.version_info >= _MIN_PYTHON:
        return Check(name="python", state="ok", detail=detail)
    return Check(name="python", state="broken", detail=detail, fix="install Python 3.11 or newer")


def _extras() -> Iterator[Check]:
    """Yield the state of each extra: ok if all packages that only this extra adds are installed."""
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
                fix=install_command(name),
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
    """Yield the state of each key variable that models of the installed plugins name."""
    for name in sorted(_key_names()):
        if environment.get(name):
            yield Check(name=f"key {name}", state="ok", detail="seen")
        elif name in environment:
            yield Check(
                name=f"key {name}",
                state="broken",
                detail="empty",
                fix="unset it, or set it to the key",
            )
        else:
            yield Check(name=f"key {name}", state="absent", detail="not set")


def _key_names() -> set[str]:
    plugins = load_plugins()
    words = " ".join(spec.summary for spec in plugins.specs("models").values())
    return {match[0] for match in _KEY.finditer(words)}


def _price_checks(day: date) -> Iterator[Check]:
    """Yield the age of the prices from which costs are computed, for models of the installed
    plugins.
    """
    for path in sorted(_price_tables()):
        table = read_price_table(path)
        if table.package is not None:
            yield _packaged_prices(table.package, day)

        days = sorted({price.as_of for price in table.rows.values()})
        if days:
            yield Check(name="prices", state="ok", detail=f"{path}: {_ages(days, day)}")


def _packaged_prices(package: Package, day: date) -> Check:
    """Return the age of the prices in the price package, if the date of its version is known."""
    version = installed_version()
    install = f"pip install {PRICE_PACKAGE}"
    if version is None:
        detail = f"{PRICE_PACKAGE} is not installed: models have no price"
        return Check(name="prices", state="absent", detail=detail, fix=install)

    looked_up = package.looked_up.get(version)
    if looked_up is None:
        known = ", ".join(f"{known} of {each}" for known, each in package.looked_up.items())
        detail = f"{PRICE_PACKAGE} {version}, with an unknown date (known: {known})"
        return Check(name="prices", state="ok", detail=detail)

    detail = f"{PRICE_PACKAGE} {version}, {_ages([looked_up], day)}"
    fix = ""
    if _age(looked_up, day) > OLD_DAYS:
        fix = f"{install} --upgrade: prices change"
    return Check(name="prices", state="ok", detail=detail, fix=fix)


def _price_tables() -> set[Path]:
    """Return the price tables of the models that installed plugins offer."""
    plugins = load_plugins()
    tables = set()
    for name, spec in plugins.specs("models").items():
        if not spec.remote:
            continue

        try:
            table = getattr(plugins.make_model(f"{name}/any"), "price_table", None)
        except KtdevalError:  # the model needs an address or a specific name
            continue
        if isinstance(table, Path):
            tables.add(table)

    return tables


def _cutoffs(day: date) -> Check:
    """Return the age of the list of training cutoffs."""
    days = listed_days()
    fix = ""
    if _age(days[-1], day) > OLD_DAYS:
        fix = "install a newer ktdeval, or give --knowledge-cutoff"
    return Check(name="cutoffs", state="ok", detail=_ages(days, day), fix=fix)


def _ages(days: Sequence[str], day: date) -> str:
    """Return when something was looked up, and how many days before `day` that was. `days` are
    sorted, earliest first.
    """
    first, last = days[0], days[-1]
    if first == last:
        return f"looked up {last}, {count(_age(last, day), 'day')} ago"
    return f"looked up {first} to {last}, {_age(first, day):,} to {_age(last, day):,} days ago"


def _age(looked_up: str, day: date) -> int:
    return (day - date.fromisoformat(looked_up)).days


def _folders() -> Iterator[Check]:
    yield _folder("cache", cache_folder())
    yield _folder("disk", Path.cwd())


def _folder(name: str, folder: Path) -> Check:
    """Return whether a folder, or its nearest existing parent, is writable and has enough room."""
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
            fix=os_advice(error, "let this user write it, or name another folder"),
        )

    detail = f"{folder}, {free / 1e9:.1f} GB free"
    if free < MIN_FREE_BYTES:
        fix = "free space, or `ktdeval files prune`"
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
    """Yield the number of plugins that load, and each plugin that fails to load."""
    try:
        plugins = load_plugins()
        for kind in KINDS:
            plugins.specs(kind)
    except KtdevalError as error:
        fix = "`ktdeval plugin check` shows the error; correct or uninstall it"
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

    detail = "none on the path; open pages of runs and boards in any browser"
    return Check(name="browser", state="absent", detail=detail)


def is_broken(found: Sequence[Check]) -> bool:
    """Return whether any part is broken. Absent parts don't count."""
    return any(check.state == "broken" for check in found)
