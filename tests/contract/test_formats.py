"""Formats of this release and of each earlier one: a small sample of each is read by the real
command, or refused in one line, before anything is paid.
"""

from __future__ import annotations

import sqlite3
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from ktdeval.testing import Terminal
from ktdeval.values.documents.format_versions import formats
from support.formats.format_samples import (
    FOLDER,
    MAX_BYTES,
    OPENED_BY,
    release,
    sample_path,
    unpack,
)
from support.providers.adapter_server import Prepared, prepared

RELEASES = sorted(path.name for path in FOLDER.iterdir() if path.name[:1].isdigit())

#: Formats whose command takes more than half a second
SLOW = {"run folder", "board", "forward test"}


def of_formats(*values: tuple[Any, ...]) -> list[Any]:
    """Return parameters that end with the name of a format; those of slow ones are marked."""
    parameters = []
    for each in values:
        marks = []
        if each[-1] in SLOW:
            marks.append(pytest.mark.slow)

        parameters.append(pytest.param(*each, marks=marks))

    return parameters


def opened(name: str, folder: Path, terminal: Terminal) -> tuple[int, str, str]:
    return terminal.call(*(word.format(folder) for word in OPENED_BY[name]))


def test_each_format_has_a_sample_of_this_release() -> None:
    assert release() in RELEASES
    assert OPENED_BY.keys() == formats().keys()


@pytest.mark.parametrize(
    ("of_release", "name"),
    of_formats(*product(RELEASES, OPENED_BY)),
)
def test_a_sample_is_read_or_refused_in_one_line(
    of_release: str, name: str, tmp_path: Path, terminal: Terminal
) -> None:
    sample = sample_path(of_release, name)
    assert sample.stat().st_size < MAX_BYTES

    unpack(sample, tmp_path)
    code, _, err = opened(name, tmp_path, terminal)

    if of_release == release():
        assert code == 0, err
    elif code != 0:
        assert (code, err.count("\n")) == (2, 1)
        assert f"made by ktdeval {of_release}" in err


# ---- other versions

#: How the version in a sample becomes that of a ktdeval to come: file, text, and what replaces it
LATER = {
    "run folder": ("run/manifest.json", '"version": 2', '"version": 99'),
    "card": ("card.json", '"schema_version": 1', '"schema_version": 99'),
    "grid": ("grid/grid.json", '"version":1', '"version":99'),
    "board": ("board/board.yaml", "schema_version: 1", "schema_version: 99"),
    "forward test": ("test/chain.jsonl", '"version":1', '"version":99'),
    "market": ("market/manifest.json", '"version": 2', '"version": 99'),
    "transplant": ("run-transplanted/transplant.json", '"version": 2', '"version": 99'),
    "fork": ("run-fork/fork.json", '"version": 2', '"version": 99'),
    "judge": ("judged/judge.json", '"version": 1', '"version": 99'),
}


def unpack_as(change: tuple[str, str, str], name: str, folder: Path) -> None:
    """Unpack this release's sample of a format with another version in it."""
    unpack(sample_path(release(), name), folder)
    file, before, after = change
    text = (folder / file).read_text()

    assert before in text

    (folder / file).write_text(text.replace(before, after, 1))


def unpack_later_cache(folder: Path) -> None:
    """Unpack a cache of replies as a ktdeval to come may write it."""
    unpack(sample_path(release(), "file of calls"), folder)
    cache = sqlite3.connect(folder / "replies.sqlite")
    cache.execute("PRAGMA user_version = 99")
    cache.close()


def test_every_format_is_tried_in_a_later_version() -> None:
    assert {*LATER, "file of calls"} == formats().keys()


@pytest.mark.parametrize("name", LATER)
def test_a_later_version_is_refused_in_one_line(
    name: str, tmp_path: Path, terminal: Terminal
) -> None:
    unpack_as(LATER[name], name, tmp_path)
    code, _, err = opened(name, tmp_path, terminal)

    assert (code, err.count("\n")) == (2, 1)
    assert "made by a later ktdeval; ktdeval" in err
    assert "can't read it: it is version 99" in err


# ---- before anything is paid

_US = ("--tasks", "market_bright", "--windows", "2024-02-21:2024-02-22")
_CN = ("--tasks", "blinded_open_research", "--windows", "W1", "--limit", "1")
_RUN = ("run", "--model", "openai_compatible/sample")
_GRID = ("grid", "--models", "openai_compatible/sample", "--workers", "1", "--yes")

#: By format: a command that asks a model with what a sample holds, and so would pay
ASKS = {
    "file of calls": (*_RUN, *_CN, "--cache", "{}/replies.sqlite", "--out", "{}/new"),
    "run folder": (*_RUN, *_CN, "--out", "{}/run"),
    "grid": (*_GRID, *_CN, "--out", "{}/grid"),
    "market": (*_RUN, *_US, "--data", "{}/market", "--out", "{}/new"),
}


@pytest.mark.parametrize("name", ASKS)
def test_a_later_version_is_refused_before_a_model_is_asked(
    name: str, tmp_path: Path, terminal: Terminal
) -> None:
    if name == "file of calls":
        unpack_later_cache(tmp_path)
    else:
        unpack_as(LATER[name], name, tmp_path)

    with prepared(Prepared({"error": {"message": "asked"}}, 500)) as server:
        words = [word.format(tmp_path) for word in ASKS[name]]
        code, _, err = terminal.call(*words, "--base-url", f"{server.address}/v1")
        assert server.bodies == []

    assert (code, err.count("\n")) == (2, 1), err
    assert "made by a later ktdeval" in err
