"""A kept file of each format is read, and one of a version to come is refused in one line."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
import yaml
from make_kept_runs import unpack
from outside import command

#: By format: the command that reads its sample, and how a later version of it looks
FORMATS = yaml.safe_load(Path(__file__).with_name("formats.yaml").read_text(encoding="utf-8"))
SAMPLES = Path(__file__).parents[1] / "support/formats/0.1"


def unpacked(name: str, folder: Path) -> Path:
    unpack(SAMPLES / f"{name.replace(' ', '-')}.tar.zst", folder)
    return folder


def test_each_sample_has_a_command() -> None:
    names = {path.name.partition(".")[0] for path in SAMPLES.iterdir()}
    assert names == {name.replace(" ", "-") for name in FORMATS}


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
def test_a_kept_file_is_read(name: str, tmp_path: Path) -> None:
    done = command(*FORMATS[name]["words"].split(), cwd=unpacked(name, tmp_path))
    assert done.code == 0, done
    assert FORMATS[name]["says"] in done.out, done


@pytest.mark.parametrize("name", FORMATS)
def test_a_version_to_come_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    form = FORMATS[name]
    path = unpacked(name, tmp_path) / form["file"]

    if "text" in form:
        before, after = form["text"]
        text = path.read_text(encoding="utf-8")
        assert before in text
        path.write_text(text.replace(before, after, 1), encoding="utf-8")
    else:
        database = sqlite3.connect(path)
        database.execute("PRAGMA user_version = 99")
        database.close()

    done = command(*form["words"].split(), cwd=tmp_path)
    assert (done.code, done.err.count("\n")) == (2, 1), done
    assert "made by a later ktdeval" in done.err
