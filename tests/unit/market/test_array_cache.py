"""Arrays that processes of a user share by files: written once, checked, bounded, and never needed."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ktdeval.errors import DataError
from ktdeval.market import ArrayCache, MarketView, load_snapshot, save_snapshot
from ktdeval.testing.markets import random_snapshot

KEY = {"market": "m", "version": 1}


def numbers(count: int = 1000) -> dict[str, Any]:
    return {"values": np.arange(float(count)), "flags": np.array([True, False])}


def refuse() -> dict[str, Any]:
    raise AssertionError("the arrays were there")


def test_arrays_are_made_once_and_mapped_read_only(tmp_path: Path) -> None:
    ArrayCache(tmp_path).arrays("numbers", KEY, numbers)
    found = ArrayCache(tmp_path).arrays("numbers", KEY, refuse)

    assert (found["values"] == np.arange(1000.0)).all()
    assert found["flags"].tolist() == [True, False]

    with pytest.raises(ValueError, match="read-only"):
        found["values"][0] = 1.0


@pytest.mark.parametrize("damage", ["flip", "cut", "remove", "manifest"])
def test_a_damaged_entry_is_found_and_made_again(tmp_path: Path, damage: str) -> None:
    cache = ArrayCache(tmp_path)
    cache.arrays("numbers", KEY, numbers)
    folder = cache.entries()[0].path
    file = folder / ("manifest.json" if damage == "manifest" else "values.npy")
    data = bytearray(file.read_bytes())
    data[-1] ^= 1

    if damage == "cut":
        data = data[:-100]

    file.write_bytes(data)
    if damage == "remove":
        file.unlink()

    assert cache.find(KEY) is None
    assert (cache.arrays("numbers", KEY, numbers)["values"] == np.arange(1000.0)).all()
    assert cache.find(KEY) is not None


def test_without_a_place_to_write_the_arrays_are_made_and_read_only(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("no folder")
    made = ArrayCache(blocked / "arrays").arrays("numbers", KEY, numbers)

    assert len(made["values"]) == 1000
    assert not made["values"].flags.writeable


def test_the_entries_used_longest_ago_make_room(tmp_path: Path) -> None:
    cache = ArrayCache(tmp_path, max_bytes=25_000)
    for number in range(6):
        cache.arrays(f"numbers {number}", {"number": number}, numbers)
        for entry in cache.entries():
            os.utime(entry.path / "manifest.json", (number, number))

        cache.find({"number": 0})  # in use

    titles = {entry.title for entry in cache.entries()}

    assert {"numbers 0", "numbers 5"} <= titles
    assert sum(entry.bytes for entry in cache.entries()) <= 25_000
    assert cache.keep("too large", {"number": 9}, numbers(10_000)) is None


def test_cleared_arrays_stay_with_those_who_mapped_them(tmp_path: Path) -> None:
    cache = ArrayCache(tmp_path)
    mapped = cache.arrays("numbers", KEY, numbers)

    assert [entry.title for entry in cache.clear()] == ["numbers"]
    assert cache.entries() == []
    assert mapped["values"][999] == 999.0


@pytest.mark.exhaustive
def test_processes_that_write_the_same_entry_leave_it_whole(tmp_path: Path) -> None:
    program = (
        "import sys, numpy as np; from pathlib import Path;"
        "from ktdeval.market import ArrayCache;"
        "made = {'values': np.arange(200_000.0)};"
        "found = ArrayCache(Path(sys.argv[1])).arrays('same', {'a': 1}, lambda: made);"
        "print(found['values'].sum())"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    sums = {process.communicate()[0].strip() for process in running}

    assert sums == {str(np.arange(200_000.0).sum())}
    assert len(ArrayCache(tmp_path).entries()) == 1
    assert len(list(tmp_path.iterdir())) == 1, "nothing temporary is left"


def test_a_stored_market_is_mapped_until_a_file_of_it_changes(tmp_path: Path) -> None:
    folder = tmp_path / "market"
    stored = save_snapshot(random_snapshot(), folder)
    cache = ArrayCache(tmp_path / "arrays")
    first = load_snapshot(folder, cache)
    again = load_snapshot(folder, cache)

    for snapshot in (first, again):
        assert snapshot.id == stored.id
        assert np.array_equal(snapshot.close, stored.close, equal_nan=True)
        assert isinstance(snapshot.close.base, np.memmap)

    table = folder / "indices.parquet"
    table.write_bytes(table.read_bytes()[:-8])
    with pytest.raises(DataError, match="import the data again"):
        load_snapshot(folder, cache)


def last_closes(view: MarketView) -> dict[str, Any]:
    return {"close": view.close[view.day].copy()}


def test_view_rows_are_cached_by_day_and_not_shared_with_a_changed_market(
    tmp_path: Path,
) -> None:
    save_snapshot(random_snapshot(), tmp_path / "market")
    snapshot = load_snapshot(tmp_path / "market", ArrayCache(tmp_path / "arrays"))
    for day in (3, 0, len(snapshot.days) - 1):
        row = snapshot.as_of(day).load_arrays("closes", "1", last_closes)["close"]
        assert np.array_equal(row, snapshot.close[day], equal_nan=True)

    # A copy keeps the id, but what was computed for the original is not its own.
    twin = replace(snapshot, close=snapshot.close * 2.0)
    row = twin.as_of(3).load_arrays("closes", "1", last_closes)["close"]

    assert np.array_equal(row, snapshot.close[3] * 2.0, equal_nan=True)
