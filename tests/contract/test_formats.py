"""Formats of this release and of each earlier one: a small sample of each is read by the real
command, or refused in one line.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from format_samples import FOLDER, MOST_BYTES, OPENED_BY, release, sample_path, unpack
from ktdeval.values.formats import formats
from terminal import Terminal

RELEASES = sorted(path.name for path in FOLDER.iterdir() if path.name[:1].isdigit())
SAMPLES = [
    pytest.param(each, name, marks=[pytest.mark.slow] if name == "run folder" else [])
    for each in RELEASES
    for name in OPENED_BY
]

#: Formats without a sample of their own yet, each held by tests of its plugin
WITHOUT_SAMPLE = {"board", "forward test", "market"}


def opened(name: str, folder: Path, terminal: Terminal) -> tuple[int, str, str]:
    return terminal.call(*(word.format(folder) for word in OPENED_BY[name]))


def test_each_format_has_a_sample_of_this_release() -> None:
    assert release() in RELEASES
    assert OPENED_BY.keys() | WITHOUT_SAMPLE == formats().keys()


@pytest.mark.parametrize(("of_release", "name"), SAMPLES)
def test_a_sample_is_read_or_refused_in_one_line(
    of_release: str, name: str, tmp_path: Path, terminal: Terminal
) -> None:
    sample = sample_path(of_release, name)
    assert sample.stat().st_size < MOST_BYTES
    unpack(sample, tmp_path)
    code, _, err = opened(name, tmp_path, terminal)
    if of_release == release():
        assert code == 0, err
    elif code != 0:
        assert (code, err.count("\n")) == (2, 1)
        assert f"made by ktdeval {of_release}" in err


#: How the version in a sample becomes that of a ktdeval to come: file, text, and what replaces it
LATER = {
    "run folder": ("run/manifest.json", '"version": 2', '"version": 99'),
    "card": ("card.json", '"schema_version": 1', '"schema_version": 99'),
    "grid": ("grid/grid.json", '"version":1', '"version":99'),
}


@pytest.mark.parametrize("name", LATER)
def test_a_later_version_is_refused_in_one_line(
    name: str, tmp_path: Path, terminal: Terminal
) -> None:
    unpack(sample_path(release(), name), tmp_path)
    file, before, after = LATER[name]
    text = (tmp_path / file).read_text()
    assert before in text
    (tmp_path / file).write_text(text.replace(before, after))
    code, _, err = opened(name, tmp_path, terminal)
    assert (code, err.count("\n")) == (2, 1)
    assert "made by a later ktdeval; ktdeval" in err
    assert "can't read it: it is version 99" in err


def test_a_cache_of_a_later_version_is_refused_in_one_line(
    tmp_path: Path, terminal: Terminal
) -> None:
    unpack(sample_path(release(), "file of calls"), tmp_path)
    cache = sqlite3.connect(tmp_path / "replies.sqlite")
    cache.execute("PRAGMA user_version = 99")
    cache.close()
    code, _, err = opened("file of calls", tmp_path, terminal)
    assert (code, err.count("\n")) == (2, 1)
    assert "made by a later ktdeval" in err
