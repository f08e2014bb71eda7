"""Edits of a run, of which none verifies: each is refused by name, whether its maker has made all
hashes anew or not.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
import zstandard
from corner_market import make_market, play, read_scene
from outside import Done, command, read_records

TABLE = Path(__file__).with_name("forgeries.yaml")
FORGERIES = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
NAMES = {"ledger": "ledger.parquet", "transcript": "transcript.jsonl.zst"}
Edit = Callable[[Any], Any]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with short sales, a margin call and a dividend, which verifies."""
    place = tmp_path_factory.mktemp("forged")
    scene = read_scene("mixed")
    play(scene, make_market(scene, place / "market"), "bright", place / "run")
    assert verify(place / "run").code == 0

    return place / "run"


def verify(run: Path) -> Done:
    return command("card", "verify", run, cwd=run)


def forge(run: Path, target: Path, kind: str, edit: Edit) -> Path:
    """Copy a run, and edit one of its files."""
    shutil.copytree(run, target)
    path = _path(target, kind)

    if kind == "ledger":
        table = pq.read_table(path)
        rows = edit(table.to_pylist())
        pq.write_table(pa.Table.from_pylist(rows, table.schema), path, compression="zstd")
    elif kind == "transcript":
        entries = edit(read_records(path))
        text = "".join(_compact(entry) + "\n" for entry in entries)
        path.write_bytes(zstandard.ZstdCompressor().compress(text.encode()))
    else:
        _write(path, edit(json.loads(path.read_bytes())))

    return target


def hash_anew(run: Path) -> None:
    """Write the hashes of the records as they are now into all that names them."""
    (episode,) = (run / "episodes").iterdir()
    told = json.loads((episode / "episode.json").read_bytes())
    card = json.loads(_path(run, "card").read_bytes())

    for name in NAMES.values():
        digest = hashlib.sha256((episode / name).read_bytes()).hexdigest()
        told["sha256"][name] = digest
        card["artefacts"][f"episodes/{episode.name}/{name}"] = digest

    _write(episode / "episode.json", told)
    _write(_path(run, "card"), card)


def _path(run: Path, kind: str) -> Path:
    pattern = {
        "card": "cards/*.json",
        "manifest": "manifest.json",
        "episode": "episodes/*/episode.json",
    }.get(kind, f"episodes/*/{NAMES.get(kind)}")
    (path,) = run.glob(pattern)
    return path


def _write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n", "utf-8")


def _compact(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def editing(place: str, change: Any) -> Edit:
    """Return what puts another value, or one that is larger by `add`, at a place such as
    `0.orders.1.fee`.
    """

    def edit(document: Any) -> Any:
        *way, last = [int(word) if word.isdigit() else word for word in place.split(".")]
        part = document
        for word in way:
            part = part[word]

        before = part[last]
        if isinstance(change, dict) and "add" in change:
            part[last] = before + change["add"]
        else:
            part[last] = change

        assert part[last] != before, place
        return document

    return edit


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "place", "change", "says"), FORGERIES)
def test_a_forgery_is_refused_by_name(
    kind: str, place: str, change: Any, says: str, run: Path, tmp_path: Path
) -> None:
    forged = forge(run, tmp_path / "run", kind, editing(place, change))
    hash_anew(forged)
    done = verify(forged)

    assert done.code != 0
    assert says in done.out + done.err, done


@pytest.mark.parametrize(
    ("kind", "place", "change"),
    [("ledger", "0.nav_minor", {"add": 1}), ("transcript", "0.submission", None)],
)
def test_a_record_with_another_hash_is_refused(
    kind: str, place: str, change: Any, run: Path, tmp_path: Path
) -> None:
    forged = forge(run, tmp_path / "run", kind, editing(place, change))
    done = verify(forged)

    assert done.code != 0
    assert NAMES[kind] in done.out


def test_a_run_with_its_hashes_made_anew_verifies(run: Path, tmp_path: Path) -> None:
    for kind in ("ledger", "transcript"):
        copy = forge(run, tmp_path / kind, kind, lambda document: document)
        hash_anew(copy)
        assert verify(copy).code == 0, kind
