"""What the owner does before a release: `.ci/owner` on a copy of the repository."""

from __future__ import annotations

import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from support.board.board_repository import git
from support.paths import REPOSITORY

OWNER = runpy.run_path(str(REPOSITORY / ".ci/owner"))
PAGE = runpy.run_path(str(REPOSITORY / ".ci/index_page.py"))["index_page"]
FILES = [name for name in OWNER["FILES"] if (REPOSITORY / name).exists()]
URL = "https://github.com/someone/ktdeval"
TEXT = (
    "# A\n\n![a picture](docs/a.png)\n\n[In](docs/b.md#c), [up](#a), [out](https://example.com).\n"
)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Return a repository with the files that the commands change."""
    if not OWNER["is_open"]():
        pytest.skip("the project has its address")

    changed = (
        "pyproject.toml CITATION.cff CHANGELOG.md ktdeval/__init__.py .ci/owner .github/CODEOWNERS"
    )
    for name in (*changed.split(), *FILES):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / name, tmp_path / name)

    for command in ("init -q", "config user.name a", "config user.email a@b.c", "add --all"):
        git(tmp_path, *command.split())

    return tmp_path


def owner(folder: Path, *words: str) -> str:
    """Return what a command prints."""
    command = [sys.executable, folder / ".ci/owner", *words]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise ValueError(done.stderr)
    return done.stdout


def test_four_commands_leave_nothing_to_the_owner(copy: Path) -> None:
    assert re.findall(r"owner (\w+)", owner(copy)) == ["name", "address", "doi", "tag"]

    owner(copy, "address", URL)
    owner(copy, "doi", "10.5281/zenodo.1234567")
    owner(copy, "tag", "2027-01-02")

    assert owner(copy) == "nothing is left to the owner\n"
    for name in FILES:
        text = (copy / name).read_text()
        assert URL in text, name
        assert not OWNER["_WORD"].search(text), name

    urls = tomllib.loads((copy / "pyproject.toml").read_text())["project"]["urls"]
    citation = yaml.safe_load((copy / "CITATION.cff").read_text())
    assert urls["Repository"] == citation["repository-code"] == URL
    assert citation["doi"] == "10.5281/zenodo.1234567"
    assert citation["date-released"] == "2027-01-02"
    assert "* @someone" in (copy / ".github/CODEOWNERS").read_text()
    assert f"## {citation['version']} (2027-01-02)" in git(copy, "show", "HEAD:CHANGELOG.md")
    assert git(copy, "tag").strip() == f"v{citation['version']}"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("address", "someone/ktdeval"), "https://HOST/OWNER/NAME"),
        (("address", f"{URL}.git"), "without .git"),
        (("doi", "https://doi.org/10.5281/zenodo.1"), "bare DOI"),
        (("tag",), "without an address"),
        (("publish",), "list what is left"),
    ],
)
def test_a_wrong_step_changes_nothing(copy: Path, words: tuple[str, ...], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        owner(copy, *words)
    assert git(copy, "diff") == ""


@pytest.mark.parametrize(
    ("address", "page"),
    [
        ("", "# A\n\nIn, [up](#a), [out](https://example.com).\n"),
        (
            URL,
            f"# A\n\n![a picture]({URL}/raw/v1.2/docs/a.png)\n\n"
            f"[In]({URL}/blob/v1.2/docs/b.md#c), [up](#a), [out](https://example.com).\n",
        ),
    ],
)
def test_the_page_of_an_index_has_no_link_into_a_folder(address: str, page: str) -> None:
    assert PAGE(TEXT, address, "1.2") == page
