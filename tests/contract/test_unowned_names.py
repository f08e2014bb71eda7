"""Nothing that is printed, written or run installs ktdeval by its name from an index: no index has
one that is ours, so that anybody could take the name.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

import pytest

from ktdeval.testing import not_empty, on_each_row
from ktdeval.values import requirement
from support.paths import REPOSITORY

SKIPPED = {".git", ".venv", "node_modules", "records", "cards", "site", "dist", ".mypy_cache"}
SUFFIXES = {".py", ".md", ".yml", ".yaml", ".toml", ".j2", ".js", ".txt", ".sh", ".csv"}
NAMES = {"Dockerfile", "Containerfile", "Makefile", "run", "floors", "second-python"}
INSTALLER = re.compile(
    r"\b(?:pip3? (?:install|download|wheel)|pipx (?:install|run)|uv (?:add|pip install|tool install|tool run)"
    r"|uvx|poetry add|conda install) (?P<rest>[^\n]*)"
)
#: Names that are ours or look like it, and that nobody owns
OURS = re.compile(r"(?:openenv-)?ktdeval(?:[-_]\w+)*(?:\[[^\]]*\])?(?:[=<>~!].*)?")
PINNED = re.compile(r"\bktdeval(?:-\w+)*(?:\[[\w,-]*\])?(?:==|~=|>=)\s*[\d{@\"]")
ENDS = {"&&", "||", "|", ";", "#", "&"}


def unowned(text: str) -> Iterator[str]:
    """Yield what in a text would install one of our names from an index."""
    for found in INSTALLER.finditer(text):
        command = re.split(r"[`\\]|\",", found["rest"])[0]
        command = re.sub(r"\bktdeval\S* @ \S+", "", command)
        try:
            words = shlex.split(command, comments=True)
        except ValueError:  # an apostrophe of prose
            words = re.sub(r"[\"']", "", command).split()

        words = list(takewhile(lambda word: word not in ENDS, words))
        if "--from" in words:  # what follows is a command
            words = words[: words.index("--from") + 2]

        for word in words:
            if OURS.fullmatch(word.strip("\"'(),:.")):
                yield found[0]

    yield from PINNED.findall(text)


def pages() -> Iterator[Path]:
    for path in sorted(REPOSITORY.rglob("*")):
        is_text = path.suffix in SUFFIXES or path.name in NAMES
        if is_text and not SKIPPED & set(path.parts) and path.is_file():
            yield path


@on_each_row(
    "line, is_found",
    ("pip install ktdeval", True),
    ("run `pip install 'ktdeval[openai]'` first", True),
    ('RUN pip install --no-cache-dir "ktdeval[models]"', True),
    ("pip install numpy ktdeval && ktdeval demo", True),
    ("uvx ktdeval demo", True),
    ('KTDEVAL: "ktdeval==0.1.0"', True),
    ("pip install ./plugins/ktdeval-inspect", False),
    ("pip install 'ktdeval[live] @ git+ADDRESS'", False),
    ("uvx --from git+ADDRESS ktdeval demo", False),
    ("pip install numpy && ktdeval demo", False),
    ("pip install -e . # ktdeval itself", False),
)
def test_a_name_without_its_source_is_found(line: str, is_found: bool) -> None:
    assert bool(list(unowned(line))) == is_found


def test_no_file_names_ours_without_a_source() -> None:
    wrong = {}
    for path in not_empty(list(pages())):
        found = list(unowned(path.read_text(encoding="utf-8")))
        if found and path.stem != Path(__file__).stem:
            wrong[str(path.relative_to(REPOSITORY))] = found

    assert wrong == {}


def test_no_project_depends_on_ours_by_its_name() -> None:
    """Our own extras name each other: they are of the project that is installed."""
    for path in not_empty([path for path in pages() if path.name.startswith("pyproject.toml")]):
        text = path.read_text(encoding="utf-8")
        project = tomllib.loads(re.sub(r"\{\{.*?\}\}|@\w+@", "x", text))["project"]
        required = list(project.get("dependencies", ()))
        if project["name"] != "ktdeval":
            for packages in project.get("optional-dependencies", {}).values():
                required += packages

        assert not [each for each in required if OURS.fullmatch(each)], path


def test_what_is_written_for_others_names_no_index() -> None:
    authoring = pytest.importorskip("ktdeval_authoring.plugin_templates")
    written = authoring.render_package("my-lab", list(authoring.parts()))
    assert f"pip install '{requirement()}'" in written[".github/workflows/test.yml"]
    for text in written.values():
        assert not list(unowned(text))
