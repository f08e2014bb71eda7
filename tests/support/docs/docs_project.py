"""Lists of the project that pages state: rings, upper bounds of dependencies, what tests run."""

from __future__ import annotations

import re
import sys
import tomllib
from functools import cache
from itertools import chain
from typing import Any

from ktdeval.values.documents.format_versions import formats
from support.docs.docs_markdown import code, table
from support.paths import REPOSITORY
from support.source_trees import SOURCES

RINGS = {
    "1 library": "values and pure functions of the field",
    "2 suite": "names, plans, stores, cards, commands",
    "3 plugins": "every concrete task, model, agent, metric and data source",
    "4 outside": "packages of others, found through the same entry points",
}
#: Modules that lie next to the packages of `ktdeval`, by ring
LOOSE = {"1 library": ("errors",), "2 suite": ("hookspecs", "api")}


_IMPORT = re.compile(
    r"^ *(?:from (\w+)[\w.]* import |import (\w+)[\w.]*(?: as \w+)?(?: +#.*)?$)", re.MULTILINE
)


@cache
def project() -> dict[str, Any]:
    """Return pyproject.toml."""
    return tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))


# ---- rings


def layers() -> list[str]:
    """Return the parts of `ktdeval` from the outermost to the innermost, one layer a row."""
    (contract,) = [each for each in _contracts() if each["id"] == "rings"]
    rows: list[str] = contract["layers"]
    return rows


def rings_table() -> str:
    """Return the table of rings: what each holds, and which packages its code imports."""
    library = set(library_parts())
    suite = set(_parts(layers())) - library
    rows = [
        _ring_row("1 library", library),
        _ring_row("2 suite", suite),
        (
            "3 plugins",
            "`tasks/*`, `plugins/*`",
            RINGS["3 plugins"],
            "public names of rings 1 and 2; the kits of `plugins/kits`; packages of their own"
            " extras",
        ),
        (
            "4 outside",
            "any installed package",
            RINGS["4 outside"],
            "the same; `ktdeval.api` is the short list of names, `ktdeval.testing` has checks and fixtures",
        ),
    ]

    return table(("ring", "where", "holds", "imports"), rows)


def library_parts() -> list[str]:
    """Return the parts of ring 1: those of the contract `library`, and what lies below them."""
    (contract,) = [each for each in _contracts() if each["id"] == "library"]
    named = {name.removeprefix("ktdeval.") for name in contract["source_modules"]}
    rows = layers()
    lowest = max(index for index, row in enumerate(rows) if named & set(_parts([row])))

    return sorted(named | set(_parts(rows[lowest + 1 :])))


def layers_text() -> str:
    """Return the layers of `ktdeval` as a block, outermost first."""
    lines = [re.sub(r" [|:] ", "   ", row) for row in layers()]
    return "```text\n" + "\n".join(lines) + "\n```"


def _ring_row(ring: str, parts: set[str]) -> tuple[str, str, str, str]:
    loose = set(LOOSE[ring])
    packages = ",".join(sorted(parts - loose))
    files = ", ".join(f"`{name}.py`" for name in LOOSE[ring])
    imported = third_party(parts | loose)
    others = ", ".join(sorted(imported))

    return (
        ring,
        f"`ktdeval/{{{packages}}}`, {files}",
        RINGS[ring],
        others if ring == "1 library" else f"ring 1, {others}",
    )


@cache
def _imports_by_part() -> dict[str, set[str]]:
    """Return the top-level packages that each part of `ktdeval` imports at run time."""
    imported: dict[str, set[str]] = {}
    for path in SOURCES:
        parts = path.relative_to(REPOSITORY).with_suffix("").parts
        if parts[0] != "ktdeval" or len(parts) < 2:
            continue

        names = imported.setdefault(parts[1], set())
        for match in _IMPORT.finditer(path.read_text(encoding="utf-8")):
            names.add(match[1] or match[2])

    return imported


def third_party(parts: set[str]) -> set[str]:
    """Return the packages outside ktdeval and the standard library that parts import."""
    imported = set[str]().union(*(_imports_by_part().get(part, set()) for part in parts))
    own = {name for name in imported if name.startswith("ktdeval")}
    return imported - own - set(sys.stdlib_module_names)


def _contracts() -> list[dict[str, Any]]:
    contracts: list[dict[str, Any]] = project()["tool"]["importlinter"]["contracts"]
    return contracts


def _parts(rows: list[str]) -> list[str]:
    return list(chain.from_iterable(re.split(r" *[|:] *", row) for row in rows))


# ---- dependencies


def upper_bounds() -> list[tuple[str, str]]:
    """Return extra and requirement of each dependency that refuses newer versions."""
    groups = {"": project()["project"]["dependencies"]}
    groups |= project()["project"]["optional-dependencies"]
    found = []

    for extra, requirements in groups.items():
        for requirement in requirements:
            if re.search(r"<|==|~=", requirement):
                found.append((extra, requirement))

    return found


def bounds_table() -> str:
    """Return the table of upper bounds."""
    rows = [(extra or "core", code(requirement)) for extra, requirement in upper_bounds()]
    return table(("extra", "requirement"), rows)


def formats_table() -> str:
    """Return the table of formats: the version that is written, and those that are read."""
    rows = []
    for name, versions in formats().items():
        latest = versions[-1]
        read = ", ".join(str(each.version) for each in versions if each.is_read)
        release = latest.release or "none"
        rows.append((name, str(latest.version), release, read, latest.carried_by, latest.covers))

    header = ("format", "version", "since release", "read", "where it stands", "covers")

    return table(header, rows)


# ---- tests


def makefile() -> str:
    """Return the text of the Makefile."""
    return (REPOSITORY / "Makefile").read_text(encoding="utf-8")


def folders_of(variable: str) -> list[str]:
    """Return the folders under tests that a variable of the Makefile names."""
    match = re.search(rf"^{variable} :?= (.*)$", makefile(), re.MULTILINE)
    assert match is not None, variable
    return re.findall(r"tests/\S+", match[1])


def tests_table() -> str:
    """Return what each command of the Makefile runs of the tests."""
    fast = ", ".join(code(each) for each in folders_of("FAST"))
    rest = ", ".join(code(each) for each in folders_of("REST"))
    qlib = ", ".join(code(each) for each in folders_of("QLIB"))
    rows = [
        (
            "`make test`",
            f"tests that are not marked slow or exhaustive, of {fast}, and beside the code of the"
            " packages that every user meets; with `ROOM=judge`: of one package or part",
            "the extra `dev`",
        ),
        ("`make test-rooms`", "such tests beside the code of the other packages", "`dev`"),
        (
            "`make test-rest`",
            f"tests that are marked slow or exhaustive, of the same folders and {rest}",
            "`dev`",
        ),
        ("`make test-all`", "`make test`, `make test-rooms` and `make test-rest`", "`dev`"),
        ("`make test-qlib`", qlib, "the extra `qlib` (gigabytes)"),
        (
            "`make test-rl`",
            "`tests/nightly/test_rl_training.py`, `plugins/ktdeval_gym/tests`",
            "the extras `gym` and `rl`",
        ),
        (
            "`make test-frameworks`",
            "`tests/accept/test_framework_examples.py`, with each framework of `examples/agents`",
            "an environment of its own (a gigabyte)",
        ),
        ("`make test-schemas`", "`tests/contract/test_schema_engines.py`", "npm, for `ajv`"),
        (
            "`make test-llm`",
            "the quick cases of `tests/llm`; with `LLM=` all",
            "an environment of its own (200 MB); minutes",
        ),
    ]

    return table(("command", "runs", "needs"), rows)
