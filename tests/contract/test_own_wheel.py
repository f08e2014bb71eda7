"""The wheel that tasks of Harbor and environments of OpenEnv hold is that of this installation."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from ktdeval.errors import UsageError
from ktdeval.registry import own_wheel
from support.paths import REPOSITORY


def files_of(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    return files_of(own_wheel().content)


def test_it_is_the_same_bytes_each_time_it_is_made() -> None:
    again = own_wheel.__wrapped__()
    assert again == own_wheel()
    assert again.sha256 == hashlib.sha256(again.content).hexdigest()


def test_it_holds_the_code_as_it_is_and_its_metadata(files: dict[str, bytes]) -> None:
    own = REPOSITORY / "ktdeval" / "registry" / "installed_wheel.py"
    assert files["ktdeval/registry/installed_wheel.py"] == own.read_bytes()

    (folder,) = {name.partition("/")[0] for name in files if ".dist-info/" in name}
    assert own_wheel().name == f"{folder.removesuffix('.dist-info')}-py3-none-any.whl"
    assert {"METADATA", "WHEEL", "RECORD", "entry_points.txt"} <= {
        name.partition("/")[2] for name in files if name.startswith(folder)
    }
    assert not [name for name in files if "__pycache__" in name or "direct_url" in name]


def test_each_file_is_recorded_with_its_hash_and_size(files: dict[str, bytes]) -> None:
    (record,) = [name for name in files if name.endswith(".dist-info/RECORD")]
    rows = list(csv.reader(io.StringIO(files[record].decode())))
    assert [name for name, _, _ in rows] == list(files)

    for name, digest, size in rows:
        if name != record:
            own = hashlib.sha256(files[name]).digest()
            assert digest == f"sha256={base64.urlsafe_b64encode(own).rstrip(b'=').decode()}"
            assert int(size) == len(files[name])


@pytest.mark.slow
def test_it_has_the_files_of_the_wheel_that_is_built(
    files: dict[str, bytes], tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True)
    (built,) = tmp_path.glob("*.whl")
    theirs = files_of(built.read_bytes())

    assert set(files) == set(theirs)
    code = [name for name in files if ".dist-info/" not in name]
    assert [name for name in code if files[name] != theirs[name]] == []


@pytest.mark.exhaustive
@pytest.mark.parametrize("digit", ["", "0"])
def test_pip_installs_it_without_an_index_and_refuses_another_hash(
    digit: str, tmp_path: Path
) -> None:
    wheel = own_wheel()
    (tmp_path / wheel.name).write_bytes(wheel.content)
    named = f"ktdeval @ file://{tmp_path / wheel.name}#sha256={digit}{wheel.sha256[len(digit) :]}"
    options = ["--no-deps", "--no-index", "--target", str(tmp_path / "there")]
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", *options, named],
        capture_output=True,
        text=True,
        check=False,
    )

    is_right = not digit or wheel.sha256.startswith(digit)
    assert (done.returncode == 0) == is_right, done.stderr
    assert (tmp_path / "there" / "ktdeval" / "__init__.py").exists() == is_right


def test_without_an_installation_that_lists_its_files_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "ktdeval-9.9.9.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.4\nName: ktdeval\nVersion: 9.9.9\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])

    with pytest.raises(UsageError, match="does not list its files; to make a wheel of it"):
        own_wheel.__wrapped__()
