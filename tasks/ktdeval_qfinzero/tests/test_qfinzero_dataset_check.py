"""The check reads a whole dataset and reports its defects, and a tampered manifest is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from ktdeval.errors import DataError
from ktdeval_qfinzero.data.check import check_dataset
from ktdeval_qfinzero.data.contents import all_parts
from ktdeval_qfinzero.data.dataset import open_dataset
from ktdeval_qfinzero.data.manifest import (
    complete_info,
    load_manifest,
    manifest_text,
    market_file,
)
from ktdeval_qfinzero.timestamps import DAY
from support.qfinzero.qfinzero_world import at


def forged(*statements: str) -> Callable[[Path], None]:
    """Change a file by statements, with a manifest that agrees: what only a reading of all content
    can find. Tables lose their CHECKs first.
    """

    def forge(folder: Path) -> None:
        manifest = load_manifest(folder)
        path = folder / manifest.file.name
        change(path, *statements)
        with duckdb.connect() as connection:
            connection.execute(f"ATTACH '{path}' AS market (READ_ONLY)")
            parts = all_parts(connection)

        file = market_file(path)
        info = complete_info(manifest.info, parts.values())
        (folder / "manifest.json").write_text(
            manifest_text(replace(manifest, info=info, file=file, parts=parts))
        )

    return forge


def change(path: Path, *statements: str) -> None:
    with duckdb.connect(str(path)) as connection:
        for (name,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall():
            connection.execute(f"CREATE OR REPLACE TABLE {name} AS FROM {name}")

        for statement in statements:
            connection.execute(statement)


def changed(*statements: str) -> Callable[[Path], None]:
    """Change a file by statements, with a manifest that has its size and hash only."""

    def damage(folder: Path) -> None:
        manifest = load_manifest(folder)
        path = folder / manifest.file.name
        change(path, *statements)
        file = market_file(path)
        (folder / "manifest.json").write_text(manifest_text(replace(manifest, file=file)))

    return damage


def clipped(folder: Path) -> None:
    path = folder / "market.duckdb"
    path.write_bytes(path.read_bytes()[:-1])


def flipped(folder: Path) -> None:
    """Turn all bytes of the file's second half around."""
    path = folder / "market.duckdb"
    data = path.read_bytes()
    half = len(data) // 2
    path.write_bytes(data[:half] + bytes(byte ^ 0xFF for byte in data[half:]))


OF_AVLN = "series = (SELECT series FROM series WHERE asset_class = 'stock' AND resolution = 'day')"
SECOND = f"start_ns = (SELECT min(start_ns) + {DAY} FROM bars WHERE {OF_AVLN})"


def days(assignment: str) -> Callable[[Path], None]:
    """Change all daily bars of AVLN."""
    return forged(f"UPDATE bars SET {assignment} WHERE {OF_AVLN}")


LATE = at("2025-01-08T00:00:00Z")

FINDINGS: dict[str, tuple[Callable[[Path], None], str]] = {
    "something else": (lambda folder: (folder / "manifest.json").unlink(), "not a dataset"),
    "missing": (lambda folder: (folder / "market.duckdb").unlink(), "market.duckdb: is missing"),
    "size": (clipped, "market.duckdb: has"),
    "hash": (flipped, "market.duckdb: its SHA-256 is not that of the manifest"),
    "damage": (flipped, "market.duckdb: can't be read: "),
    "order": (
        forged(
            f"CREATE TABLE turned AS FROM bars WHERE {OF_AVLN} ORDER BY start_ns DESC",
            f"CREATE OR REPLACE TABLE bars AS FROM bars WHERE NOT ({OF_AVLN})",
            "INSERT INTO bars FROM turned",
            "CREATE OR REPLACE TABLE bars AS FROM bars ORDER BY series, start_ns DESC",
            "DROP TABLE turned",
        ),
        "bars in the order of their starts",
    ),
    "twice": (
        forged(
            f"INSERT INTO bars FROM bars WHERE {OF_AVLN} AND {SECOND}",
            "CREATE OR REPLACE TABLE bars AS FROM bars ORDER BY series, start_ns",
        ),
        "each bar once: 1 of another kind",
    ),
    "high": (days("high_e4 = open_e4 - 1"), "high: expected the highest price"),
    "low": (days("low_e4 = 0"), "low: expected the lowest price of the bar, above 0"),
    "volume": (days("volume = 'nan'"), "volume: expected a number from 0"),
    "calendar": (
        days(f"start_ns = start_ns - {11 * 365 * DAY}"),
        "has days outside of its calendar, 2015-01-02 to 2035-12-31",
    ),
    "midnight": (days("start_ns = start_ns + 1"), "midnight in UTC of its date"),
    "listing": (
        forged(f"UPDATE contracts SET listed_ns = {LATE}"),
        "was listed at 2025-01-08T00:00:00Z, after its first bar",
    ),
    "unlisted": (forged("DELETE FROM symbols"), "stock AVLN: has bars, but is not in symbols"),
    "no contract": (forged("DELETE FROM contracts"), "has bars, but is not in contracts"),
    "release": (
        forged(f"UPDATE events SET announced_ns = {LATE * 2}, released_ns = [0]"),
        "releases: expected values that are available from",
    ),
    "dividend": (
        forged(f"INSERT INTO dividends VALUES ('AVLN', '2025-01-07', '2025-01-31', 2500, {LATE})"),
        "declared: expected a moment before the end of ex_day",
    ),
    "same key": (
        forged(*["INSERT INTO splits VALUES ('AVLN', '2025-01-13', 2, 1, 0)"] * 2),
        "appears more than once",
    ),
    "empty cell": (
        changed("UPDATE symbols SET symbol = NULL"),
        "tables/symbols: ",
    ),
    "text": (
        changed("ALTER TABLE symbols ALTER listed_ns TYPE VARCHAR"),
        "other tables than those of a market",
    ),
    "a view in the place of a table": (
        changed("DROP TABLE rates", "CREATE VIEW rates AS FROM read_text('/etc/passwd')"),
        "other tables than those of a market",
    ),
    "no day": (
        changed("UPDATE rates SET day = '12025-01-01'"),
        "tables/rates: 1 rows in the manifest, which differ in the file",
    ),
    "no yield": (
        changed("UPDATE rates SET yields_pct = map {'1M': 'nan'::DOUBLE}"),
        "yields: expected percents a year",
    ),
    "no JSON": (changed("UPDATE events SET expected = '{'"), "market.duckdb: can't be read"),
    "changed row": (
        changed("UPDATE symbols SET sector = 'other'"),
        "tables/symbols: 1 rows in the manifest, which differ in the file",
    ),
    "missing part": (
        changed("DELETE FROM contracts"),
        "tables/contracts/AVLN: is missing in the file",
    ),
    "holiday": (
        days(f"start_ns = {at('2025-01-09T00:00:00Z')} + (start_ns - {at('2025-01-03')})"),
        "2 bars start outside the exchange's sessions",
    ),
}


@pytest.mark.parametrize("name", FINDINGS)
def test_a_check_finds(tiny: Path, name: str) -> None:
    damage, expected = FINDINGS[name]
    damage(tiny)
    lines = [str(finding) for finding in check_dataset(tiny)]

    assert any(expected in line for line in lines), lines
    assert all("\n" not in line for line in lines)


ELSEWHERE = ("../../outside.duckdb", "/etc/passwd", "x/market.duckdb", "market.duckdb.wal")


@pytest.mark.parametrize("file", ELSEWHERE)
def test_a_manifest_that_points_elsewhere_is_refused(tiny: Path, file: str) -> None:
    stored = json.loads((tiny / "manifest.json").read_text())
    stored["file"]["name"] = file
    (tiny / "manifest.json").write_text(json.dumps(stored))

    with pytest.raises(DataError, match="malformed"):
        open_dataset(tiny)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"format": "x"}',
        pytest.param("[" * 100_000, id="100,000 levels"),
        '{"format": NaN}',
    ],
)
def test_a_text_that_is_no_manifest_is_refused(tiny: Path, text: str) -> None:
    (tiny / "manifest.json").write_text(text)
    with pytest.raises(DataError):
        open_dataset(tiny)
