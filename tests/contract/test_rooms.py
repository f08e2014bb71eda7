"""Each room has a README that says for what one goes there, what to read first and how to test it."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from ktdeval.testing import not_empty
from support.docs.docs_project import makefile
from support.docs.docs_prose import links, long_sentences, problem_of_link
from support.docs.docs_rooms import FAMILIES, read_room, room_folders, rooms
from support.paths import REPOSITORY

FOLDERS = room_folders()
#: Where `make test ROOM=judge` looks for tests
TESTS = (
    "tasks/ktdeval_{}/tests",
    "plugins/ktdeval_{}/tests",
    "plugins/kits/ktdeval_{}/tests",
    "tests/unit/{}",
)


def readme_of(folder: Path) -> str:
    return (folder / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_room_names_its_family_and_three_files_to_read_first(folder: Path) -> None:
    room = read_room(folder)

    assert room.family in FAMILIES
    assert len(set(room.files)) == 3
    assert [name for name in room.files if not (folder / name).is_file()] == []


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_commands_that_test_a_room_find_tests(folder: Path) -> None:
    text = readme_of(folder)
    named = re.findall(r"`make test ROOM=(\w+)`", text)
    targets = re.findall(r"`make (test-\w+)`", text)

    folders = [REPOSITORY / place.format(name) for name in named for place in TESTS]
    found = [folder for folder in folders if folder.is_dir()]
    assert found or targets, "which command tests it?"
    for target in targets:
        assert re.search(rf"^{target}:", makefile(), re.MULTILINE), target


def test_sentences_of_rooms_are_short_and_their_links_lead_somewhere() -> None:
    problems = []
    for folder in not_empty(FOLDERS):
        page = folder / "README.md"
        problems += [f"{folder.name}: {sentence}" for sentence in long_sentences(readme_of(folder))]
        for target in links(readme_of(folder)):
            if problem := problem_of_link(page, target):
                problems.append(f"{folder.name}: {problem}")

    assert problems == []


def test_the_map_lists_each_room_once_and_each_family() -> None:
    page = (REPOSITORY / "docs" / "architecture.md").read_text(encoding="utf-8")
    listed = Counter(re.findall(r"^\| \*\w+\* \| .* \| `([\w/-]+)` \|$", page, re.MULTILINE))

    assert {room.name: listed[room.name] for room in rooms()} == dict.fromkeys(
        (room.name for room in rooms()), 1
    )
    assert re.findall(r"^\| \*(\w+)\* \| [^|]+ \|$", page, re.MULTILINE) == list(FAMILIES)


def test_a_readme_without_a_family_is_refused_with_what_to_write() -> None:
    with pytest.raises(ValueError, match=r"write a line `Family: \*WORD\*.*one of base, papers"):
        read_room(REPOSITORY / "tests" / "support")
