"""What a killed process leaves behind is removed by the next one that writes there; what a living
one writes is left alone.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ktdeval.values import filling, new_folder, write_atomic
from support.runs.killing import PAUSE, killed, paused
from support.runs.run_support import MASK_KEY, WINDOW, ktdeval

NEW_FOLDER = f"""
from pathlib import Path
from ktdeval.values import new_folder
with new_folder(Path("made")) as inside:
    (inside / "half").write_text("half")
    {PAUSE}
"""
NEW_FILE = f"""
import os
from pathlib import Path
from ktdeval.values.disk.temporary import temporary_file
with temporary_file(Path("file.json")) as (path, descriptor):
    os.write(descriptor, b"half")
    {PAUSE}
    path.replace("file.json")
"""
FILLING = f"""
from pathlib import Path
from ktdeval.values import filling
with filling(Path("pages"), "index.html") as fresh:
    (fresh / "a.html").write_text("half")
    {PAUSE}
"""


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def pages_in(folder: Path) -> list[str]:
    return [name for name in names(folder) if name.endswith(".html")]


# ---- folders and files


def test_a_folder_that_a_killed_process_was_making_is_removed_by_the_next(tmp_path: Path) -> None:
    killed(NEW_FOLDER, tmp_path)
    (left,) = names(tmp_path)

    assert left.startswith(".made.new-")

    with new_folder(tmp_path / "made") as inside:
        (inside / "whole").write_text("whole")

    assert names(tmp_path) == ["made"]
    assert names(tmp_path / "made") == ["whole"]


def test_a_folder_that_a_living_process_is_making_stays(tmp_path: Path) -> None:
    with paused(NEW_FOLDER, tmp_path):
        (living,) = names(tmp_path)
        with new_folder(tmp_path / "made") as inside:
            (inside / "whole").write_text("whole")

        assert names(tmp_path) == [living, "made"]
        assert (tmp_path / living / "content" / "half").is_file()


def test_a_file_that_a_killed_process_was_writing_is_written_over(tmp_path: Path) -> None:
    write_atomic(tmp_path / "file.json", "before")
    killed(NEW_FILE, tmp_path)

    assert names(tmp_path) == [".file.json.new", "file.json"]
    assert (tmp_path / "file.json").read_text() == "before"

    write_atomic(tmp_path / "file.json", "after")
    assert names(tmp_path) == ["file.json"]
    assert (tmp_path / "file.json").read_text() == "after"


def test_two_that_write_one_file_leave_the_whole_of_one(tmp_path: Path) -> None:
    with paused(NEW_FILE, tmp_path):
        write_atomic(tmp_path / "file.json", "ours")
        assert names(tmp_path) == [".file.json.new", "file.json"]
        assert (tmp_path / "file.json").read_text() == "ours"

    assert names(tmp_path) == ["file.json"]
    assert (tmp_path / "file.json").read_text() == "half"


def test_hidden_files_of_a_user_are_not_swept(tmp_path: Path) -> None:
    (tmp_path / ".made.note").write_text("mine")
    (tmp_path / ".made").mkdir()
    (tmp_path / ".made.new-link").symlink_to(tmp_path / ".made")

    with new_folder(tmp_path / "made"):
        pass

    assert names(tmp_path) == [".made", ".made.new-link", ".made.note", "made"]


# ---- folders that are filled


def test_a_new_folder_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    killed(FILLING, tmp_path)
    assert not (tmp_path / "pages").exists()

    with filling(tmp_path / "pages", "index.html") as fresh:
        (fresh / "index.html").write_text("whole")

    assert names(tmp_path) == ["pages"]
    assert names(tmp_path / "pages") == ["index.html"]


def test_what_was_in_a_folder_stays_as_it_was_until_all_is_made(tmp_path: Path) -> None:
    pages = tmp_path / "pages"
    pages.mkdir()
    (pages / "a.html").write_text("before")
    (pages / "index.html").write_text("before")
    killed(FILLING, tmp_path)

    assert {path.name: path.read_text() for path in pages.glob("*.html")} == {
        "a.html": "before",
        "index.html": "before",
    }

    with filling(pages, "index.html") as fresh:
        (fresh / "b.html").write_text("after")
        (fresh / "index.html").write_text("after")

    assert names(pages) == ["a.html", "b.html", "index.html"]
    assert (pages / "index.html").read_text() == "after"


# ---- commands

IMPORT = NEW_FOLDER.replace('"made"', '"imp"')


@pytest.mark.slow
def test_an_import_that_was_killed_leaves_nothing_once_it_is_made_again(
    market: Path, tmp_path: Path
) -> None:
    killed(IMPORT, tmp_path)
    (left,) = names(tmp_path)

    assert left.startswith(".imp.new-")

    placebo = ("data", "make", "placebo", "--of", market, "--kind", "sign_flip", "--out", "imp")
    first = ktdeval(*placebo, cwd=tmp_path)

    assert first.code == 0, first.err
    assert names(tmp_path) == ["imp"]

    # Left beside a market that is there already, too.
    killed(IMPORT, tmp_path)
    assert len(names(tmp_path)) == 2

    again = ktdeval(*placebo, cwd=tmp_path)
    assert again.code == 0, again.err
    assert names(tmp_path) == ["imp"]


VIEW = f"""
import os
from pathlib import Path
from ktdeval.registry import load_plugins
from ktdeval.runner import RunFolder
from ktdeval_view.command import RunView
from ktdeval_view.document import EnvironmentRedactor
run = RunFolder.load(Path("run"))
told = []
def tell(name, done, total):
    told.append(name)
    if len(told) == 2:
        {PAUSE}
RunView(run, load_plugins(), "no market", EnvironmentRedactor(os.environ)).write(Path("run/view"), run.manifest.specs, tell)
"""


@pytest.mark.slow
def test_pages_of_a_view_that_was_killed_half_way_are_not_there(
    market: Path, tmp_path: Path
) -> None:
    words = (
        "--tasks",
        "bright_open_research",
        "--windows",
        WINDOW,
        "--limit",
        2,
        "--seeds",
        3,
        "--mask-key",
        MASK_KEY,
    )
    done = ktdeval(
        "run",
        "--model",
        "builtin/random",
        *words,
        "--data",
        market,
        "--out",
        "run",
        "--quiet",
        cwd=tmp_path,
    )

    assert done.code == 0, done.err

    before = names(tmp_path / "run")
    killed(VIEW, tmp_path)

    assert not (tmp_path / "run" / "view").exists()

    assert ktdeval("view", "run", cwd=tmp_path).code == 0
    assert names(tmp_path / "run") == sorted([*before, "view"])
    assert len(pages_in(tmp_path / "run" / "view")) == 6

    killed(VIEW, tmp_path)
    assert ktdeval("view", "run", cwd=tmp_path).code == 0
    assert len(pages_in(tmp_path / "run" / "view")) == 6
    assert json.loads((tmp_path / "run" / "manifest.json").read_text())
