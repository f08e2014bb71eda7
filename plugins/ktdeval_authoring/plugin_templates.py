"""New plugin packages, rendered from templates."""

from __future__ import annotations

import keyword
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jinja2

from ktdeval.errors import UsageError
from ktdeval.registry import find_entry_points
from ktdeval.values import Value, from_plain, load_yaml, near_matches, requirement

_HERE = Path(__file__).parent
_TEMPLATES = _HERE / "templates"
_PROJECT = re.compile(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*")
_MAX_CHARACTERS = 60
_COMMON = {
    "pyproject.toml": "pyproject.toml.j2",
    "README.md": "README.md.j2",
    ".gitignore": "gitignore.j2",
    ".github/workflows/test.yml": "test.yml.j2",
    "tests/test_contract.py": "test_contract.py.j2",
}
"""Mapping from target to template, for the files that every package has."""


class PartTemplate(Value):
    """One kind of part that a new plugin may have."""

    files: dict[str, str]  #: mapping from each file in the package to a description of its contents
    types: tuple[str, ...]  #: imports that the manifest needs for its annotations
    command: str  #: command in the README for trying the part
    has_params: bool = False  #: whether the Spec of the part declares parameters


@cache
def parts() -> Mapping[str, PartTemplate]:
    """Return the parts, keyed by name, in the order of a manifest."""
    path = _HERE / "parts.yaml"
    table: dict[str, Any] = load_yaml(path)
    return {name: from_plain(row, PartTemplate, f"{path}: {name}") for name, row in table.items()}


def chosen_parts(text: str) -> tuple[str, ...]:
    """Return the parts that `--with` names, in the order of a manifest. Raises UsageError if no
    part is named, or if a part has no template.
    """
    named = [name.strip() for name in text.split(",") if name.strip()]
    for name in named:
        if name not in parts():
            raise UsageError(
                f"--with: no part {name!r}{near_matches(name, parts())}; parts are"
                f" {', '.join(parts())}"
            )

    if not named:
        raise UsageError(f"--with: names no part; parts are {', '.join(parts())}")

    return tuple(name for name in parts() if name in named)


def check_name(project: str) -> str:
    """Return the package name for a project. Raises UsageError if the name is not valid for a
    package, or is taken.
    """
    if len(project) > _MAX_CHARACTERS or not _PROJECT.fullmatch(project):
        raise UsageError(
            f"{project!r:.80} can't name a package: use lower-case letters, digits and dashes, as in"
            " my-lab"
        )

    package = project.replace("-", "_")
    installed = {entry.module.partition(".")[0] for entry in find_entry_points()}
    is_taken = package in sys.stdlib_module_names or package in installed
    if keyword.iskeyword(package) or is_taken or package == "ktdeval":
        raise UsageError(f"{project!r} is a name that Python or ktdeval uses; choose another")

    return package


def render_package(project: str, names: Sequence[str]) -> dict[str, str]:
    """Return the files of a new package, keyed by path. `project` must have passed `check_name`;
    `names` are the names of the parts.
    """
    chosen = [parts()[name] for name in names]
    words: dict[str, str] = {
        "project": project,
        "package": project.replace("-", "_"),
        "model": project.replace("_", "-"),
        "ktdeval": requirement(),
    }
    environment = jinja2.Environment(  # noqa: S701 - source code and configuration, no pages
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
    )

    def render(template: str, **more: Any) -> str:
        return environment.get_template(template).render(**words, **more)

    files = {file: text for part in chosen for file, text in part.files.items()}
    commands = [part.command.format(**words) for part in chosen]
    listed = {"parts": names, "files": list(files.items()), "commands": commands}
    sections = [render(f"parts/{name}/manifest.py.j2").rstrip() for name in names]
    content = {
        target: render(f"common/{template}", **listed) for target, template in _COMMON.items()
    }
    source = f"src/{words['package']}"
    content[f"{source}/__init__.py"] = render(
        "common/manifest.py.j2",
        sections=[f"{section}\n" for section in sections],
        imports=_imports(chosen),
    )
    for name in names:
        for target, template in _files_of(name, source):
            content[target] = render(template)

    return {path: _ending_in_one_line_break(text) for path, text in sorted(content.items())}


def _files_of(name: str, source: str) -> Iterator[tuple[str, str]]:
    """Yield the target and the template of each file of a part."""
    for file in parts()[name].files:
        yield f"{source}/{file}", f"parts/{name}/{file}.j2"

    yield f"tests/test_{name}.py", f"parts/{name}/test_{name}.py.j2"


def _imports(chosen: Sequence[PartTemplate]) -> str:
    """Return the imports of a manifest, in groups separated by a blank line."""
    has_params = any(part.has_params for part in chosen)
    types = _sorted_imports(chosen)
    standard = []
    if has_params:
        standard.append("from dataclasses import dataclass")
    if types:
        standard.append("from typing import TYPE_CHECKING")

    groups = [["from __future__ import annotations"]]
    if standard:
        groups.append(standard)

    groups.append(["from ktdeval.api import Spec, hookimpl" + (", option" if has_params else "")])
    if types:
        groups.append(["if TYPE_CHECKING:", *(f"    {line}" for line in types)])

    return "\n\n".join("\n".join(group) for group in groups)


def _sorted_imports(chosen: Sequence[PartTemplate]) -> list[str]:
    """Return the imports of types, one line for each module, in the order that linters require."""
    names: dict[str, set[str]] = {}
    for part in chosen:
        for line in part.types:
            _, module, _, name = line.split()
            names.setdefault(module, set()).add(name)

    lines = []
    for module in sorted(names, key=lambda module: (module.startswith("ktdeval"), module)):
        lines.append(f"from {module} import {', '.join(sorted(names[module]))}")

    return lines


def _ending_in_one_line_break(text: str) -> str:
    return text.rstrip() + "\n"


def write_package(folder: Path, files: Mapping[str, str]) -> None:
    """Write a package into a new or empty folder. Raises UsageError if the folder is not empty."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder}: exists already; choose another folder with --out")

    for path, text in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
