"""Sources for installing ktdeval and the packages of its extras.

ktdeval is not on any package index, so anyone could publish other code under its name. Until it is
released, every command that is printed, written or run specifies the source: the repository address
in `pyproject.toml`.
"""

from __future__ import annotations

import json
import re
import shlex

_PROJECT = "ktdeval"
_ADDRESS = "ADDRESS"  # used if the metadata of this installation is not available


def source() -> str:
    """Return the source from which pip installs ktdeval: the repository commit from which it was
    installed (PEP 610), otherwise the repository given in the project's metadata.
    """
    from importlib import metadata  # noqa: PLC0415 - slow, and for errors and exports only

    try:
        installed = metadata.distribution(_PROJECT)
    except metadata.PackageNotFoundError:
        return f"git+{_ADDRESS}"

    origin = json.loads(installed.read_text("direct_url.json") or "{}")
    commit = origin.get("vcs_info", {}).get("commit_id")
    if commit:
        return f"git+{origin['url']}@{commit}"

    for entry in installed.metadata.get_all("Project-URL") or []:
        label, _, address = entry.partition(", ")
        if label == "Repository":
            return f"git+{address}"

    return f"git+{_ADDRESS}"


def requirement(*extras: str) -> str:
    """Return a requirement for ktdeval with the given extras, including its source."""
    named = f"[{','.join(extras)}]" if extras else ""
    return f"{_PROJECT}{named} @ {source()}"


def install_command(extra: str) -> str:
    """Return the command that installs the packages of one of ktdeval's extras."""
    from importlib import metadata  # noqa: PLC0415 - as above

    try:
        required = metadata.requires(_PROJECT) or []
    except metadata.PackageNotFoundError:
        required = []

    packages = []
    for entry in required:
        package, _, marker = entry.partition(";")
        if re.search(rf"\bextra == ['\"]{re.escape(extra)}['\"]", marker):
            packages.append(shlex.quote(package.strip()))

    if not packages:  # ktdeval runs from a source folder
        return f"pip install '.[{extra}]' # in a clone of ktdeval"
    return f"pip install {' '.join(packages)}"


def import_problem(error: ImportError, package: str = "") -> str:
    """Say why an import failed: `ray is not installed`, or, if `ray` is there,
    `ray can't be imported (No module named 'msgpack')`.

    `package` is the package that was imported, dotted if it is part of another; without it, the
    module that the error names.
    """
    missing = ""
    if isinstance(error, ModuleNotFoundError):
        missing = error.name or ""

    package = package or (error.name or "").partition(".")[0] or "a package"
    if missing and f"{package}.".startswith(f"{missing}."):
        return f"{package} is not installed"

    reason = " ".join(str(error).split()) or type(error).__name__
    return f"{package} can't be imported ({reason})"
