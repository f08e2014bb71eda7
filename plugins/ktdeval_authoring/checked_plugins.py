"""Plugins that `ktdeval plugin check` checks: installed plugins, files, folders and projects."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from typing import Any

from ktdeval.errors import UsageError
from ktdeval.registry import GROUP, find_entry_points
from ktdeval.values import near_matches


def plugins_of(target: str | None) -> list[str]:
    """Return the plugin references for a target, in the form that `check_parts` takes. The target
    is None (all installed third-party plugins), the path of a file, package folder or project, or
    the name of an installed plugin's module, entry point or distribution. Raises UsageError if no
    plugin is found.
    """
    entries = [entry for entry in find_entry_points() if entry.distribution != "ktdeval"]
    if target is None:
        if not entries:
            raise UsageError(
                "no third-party plugin is installed; name a file, a folder or a module to check"
            )
        return [entry.value for entry in entries]

    path = Path(target)
    if path.exists():
        return _of_path(path)

    every = find_entry_points()
    found = [
        entry.value
        for entry in every
        if target in (entry.value, entry.name) or target.replace("_", "-") == entry.distribution
    ]
    if not found:
        known = [entry.value for entry in every]
        raise UsageError(
            f"{target}: no such file, folder or installed plugin{near_matches(target, known)}"
        )

    return list(dict.fromkeys(found))


def _of_path(path: Path) -> list[str]:
    if path.is_file():
        if path.suffix != ".py":
            raise UsageError(f"{path}: not a .py file; give one, a package folder or a project")
        return [str(path)]
    if (path / "__init__.py").is_file():
        return [str(path)]

    project = path / "pyproject.toml"
    if not project.is_file():
        raise UsageError(
            f"{path}: holds neither __init__.py nor pyproject.toml; give a .py file, a package"
            " folder or a project"
        )

    return _of_project(path, project)


def _of_project(folder: Path, project: Path) -> list[str]:
    """Return the modules that a project advertises, and add the project's folders to `sys.path`."""
    try:
        content: dict[str, Any] = tomllib.loads(project.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{project}: not TOML: {error}; correct that file") from error

    advertised = content.get("project", {}).get("entry-points", {}).get(GROUP, {})
    if not advertised:
        raise UsageError(
            f"{project}: declares no plugin; add [project.entry-points.{GROUP}] with a line NAME "
            '= "MODULE"'
        )

    for source in (folder / "src", folder):
        if source.is_dir():
            sys.path.insert(0, str(source.resolve()))

    return [str(module) for module in advertised.values()]
