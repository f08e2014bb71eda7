"""Which packages of ktdeval import what it depends on."""

from __future__ import annotations

import ast
import functools
import re
from collections import defaultdict
from collections.abc import Iterable
from itertools import chain
from pathlib import Path

from support.docs.docs_markdown import code, table
from support.docs.docs_project import project
from support.source_trees import SOURCES, imports_in, nodes_of, parts_of

MODULE_OF = {
    "google-auth": "google.auth",
    # fsspec imports these by the scheme of a URL
    "adlfs": "fsspec",
    "s3fs": "fsspec",
    "pyyaml": "yaml",
    "pyqlib": "qlib",
    "vl-convert-python": "vl_convert",
    "google-genai": "google.genai",
    "exchange_calendars": "exchange_calendars",
    "opentelemetry-sdk": "opentelemetry.sdk",
    "opentelemetry-exporter-otlp-proto-http": "opentelemetry.exporter.otlp.proto.http",
}


def dependencies() -> dict[str, str]:
    """Distribution -> the first extra that brings it, empty for the core."""
    by_extra = {"": project()["project"]["dependencies"], **_extras()}
    first: dict[str, str] = {}

    for extra, texts in by_extra.items():
        for text in texts:
            name = _name_of(text)
            if name != "ktdeval":
                first.setdefault(name, extra)

    return first


@functools.cache
def importers() -> dict[str, set[str]]:
    """Imported module, at every length of its path -> packages of the product that import it."""
    modules: dict[str, set[str]] = defaultdict(set)
    for path in SOURCES:
        first, *inside = parts_of(path.with_suffix(""))
        package = f"ktdeval.{inside[0]}" if first == "ktdeval" else first
        for module in imported(path):
            pieces = module.split(".")
            for length in range(1, len(pieces) + 1):
                modules[".".join(pieces[:length])].add(package)

    return modules


def imported(path: Path) -> set[str]:
    """What a module imports; adapters of models name the package of their SDK, which is imported
    when the model is made.
    """
    packages = set()

    for node in nodes_of(path):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            names = [getattr(target, "id", "") for target in node.targets]
            if "package" in names:
                packages.add(node.value.value)

    return {*imports_in(nodes_of(path), names=True), *packages}


def rows() -> list[tuple[str, str, str]]:
    """Return distribution, extra and importing packages of each dependency."""
    users = importers()
    module_of = {name: MODULE_OF.get(name, name.replace("-", "_")) for name in dependencies()}

    return [
        (name, extra, ", ".join(sorted(users[module_of[name]])))
        for name, extra in sorted(dependencies().items())
    ]


def dependencies_table() -> str:
    """Return what each extra installs, and which packages of ktdeval import it."""
    users = {name: importing.split(", ") for name, _, importing in rows()}
    table_rows = [("none", _installed(project()["project"]["dependencies"]), "the suite itself")]

    for extra, texts in _extras().items():
        names = [_name_of(text) for text in texts]
        importing = set(chain.from_iterable(users.get(name, ()) for name in names))
        table_rows.append((code(extra), _installed(texts), ", ".join(sorted(importing))))

    return table(("extra", "installs", "imported by"), table_rows)


def _extras() -> dict[str, list[str]]:
    """Return the requirements of each extra that users install; the others bring commands that make
    the project, not modules that it imports.
    """
    extras = project()["project"]["optional-dependencies"]
    of_makers = ("dev", "docs", "release")
    return {name: texts for name, texts in extras.items() if name not in of_makers}


def _name_of(requirement: str) -> str:
    return re.sub(r"[\[<>=!~ ].*", "", requirement)


def _installed(requirements: Iterable[str]) -> str:
    """Return the names of requirements; `ktdeval[a,b]` installs the extras a and b."""
    names = []
    for text in requirements:
        extras = text.removeprefix("ktdeval[").removesuffix("]")
        names.append(_name_of(text) if extras == text else f"extras {extras.replace(',', ', ')}")

    return ", ".join(names)
