"""Which packages of ktdeval import what it depends on."""

from __future__ import annotations

import ast
import functools
import re
from collections import defaultdict
from pathlib import Path

from docs_markdown import table
from docs_project import project
from source_trees import SOURCES, imports_in, nodes_of, parts_of

MODULE_OF = {
    "google-auth": "google.auth",
    "pyyaml": "yaml",
    "pyqlib": "qlib",
    "google-genai": "google.genai",
    "exchange_calendars": "exchange_calendars",
    "opentelemetry-sdk": "opentelemetry.sdk",
    "opentelemetry-exporter-otlp-proto-http": "opentelemetry.exporter.otlp.proto.http",
}


def dependencies() -> dict[str, str]:
    """Distribution -> the first extra that brings it, empty for the core."""
    extras = {
        name: texts
        for name, texts in project()["project"]["optional-dependencies"].items()
        if name not in ("dev", "release")
    }
    by_extra = {"": project()["project"]["dependencies"], **extras}
    first: dict[str, str] = {}

    for extra, texts in by_extra.items():
        for text in texts:
            name = re.split(r"[\[<>=!~ ]", text)[0]
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
    """Return the table of docs/dependencies.md."""
    return table(("dependency", "extra", "imported by"), rows())
