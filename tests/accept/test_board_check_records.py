"""Records of a submission before they are executed: files that are not as listed, archives that
grow, jobs that take too long.
"""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from ktdeval_board.checking import records
from ktdeval_board.checking.record_sandbox import lines_problem, table_problem
from ktdeval_board.checking.records import check_records, copy_records
from support.board.board_cards import card_of
from support.board.board_checked import recorded_card, renew, submit

# -- records as files
# --------------------------------------------------------------------------------------------


UNLISTED = "is not in the list of records"
UNREADABLE = "can't be read as a regular file"


@pytest.mark.parametrize(
    ("change", "found", "words"),
    [
        ("printf {} > manifest.json", "manifest.json hash", "of 2 bytes, but the list says"),
        ("echo > episodes/sitecustomize.py", "sitecustomize.py records", UNLISTED),
        ("rm manifest.json", "manifest.json records", f"{UNREADABLE}: No such file or directory"),
        ("mv episodes ../away; ln -s ../away episodes", "episodes records", UNLISTED),
        ("mv manifest.json ..; ln -s ../manifest.json .", "manifest.json records", UNREADABLE),
        # a pipe keeps nobody waiting
        ("rm manifest.json; mkfifo manifest.json", "manifest.json records", UNREADABLE),
    ],
)
def test_records_that_are_not_as_listed_are_refused_unread(
    board: Path, whole: Path, tmp_path: Path, change: str, found: str, words: str
) -> None:
    case = recorded_card(board, submit(board, whole))
    subprocess.run(["sh", "-ec", change], cwd=case.source, check=True)
    findings = copy_records(case, tmp_path / "private")
    messages = {f"{Path(each.path).name} {each.rule}": each.message for each in findings}

    assert words in messages[found]
    assert all(finding.path.startswith(f"records/{case.files.card_id}") for finding in findings)
    assert not list((tmp_path / "private").rglob("*.py"))


def test_records_over_a_limit_are_refused_unread(board: Path, whole: Path, tmp_path: Path) -> None:
    files = submit(board, whole)
    listed = json.loads(files.records.read_text())
    listed["files"][-1]["bytes"] = 2_000_001  # the manifest
    files.records.write_text(json.dumps(listed))
    (finding,) = copy_records(recorded_card(board, files, records_mb=2), tmp_path / "private")

    assert (finding.rule, "at most 2,000,000 are allowed" in finding.message) == ("size", True)

    renew(board, files, "manifest.json", b"[" + b" " * 1_000_000 + b"]")
    (finding,) = copy_records(recorded_card(board, files, card_mb=1), tmp_path / "private")

    assert (finding.rule, finding.path) == ("size", f"records/{files.card_id}/manifest.json")


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (b"{", "json"),
        (b'{"a": NaN}', "json"),
        (b"[" * 100_000, "json"),
        (b'{"a": 1, "a": 2}', "json"),
        (b"\xff", "json"),
        # another shape
        (b"[]", "records"),
        (b'{"version": 2, "episodes": [{"id": "x"}]}', "records"),
    ],
    ids=range(7),
)
def test_a_manifest_that_is_none_is_refused_in_one_line(
    board: Path, whole: Path, text: bytes, rule: str
) -> None:
    files = submit(board, whole)
    renew(board, files, "manifest.json", text)
    (finding,) = check_records(recorded_card(board, files)).findings

    assert (finding.rule, finding.path) == (rule, f"records/{files.card_id}/manifest.json")
    assert rule == "json" or "not a readable manifest" in finding.message


# -- archives that grow
# ------------------------------------------------------------------------------------------


NOISE = random.Random(1).randbytes(300_000)


def packed(data: bytes, **settings: Any) -> bytes:
    return zstandard.ZstdCompressor(**settings).compress(data)


def lying() -> bytes:
    """Zeros under a header that states 500 bytes: the size is in four bytes after the
    descriptor.
    """
    honest = packed(bytes(200_000))

    assert honest[4] & 0b11000000 == 0b10000000

    return honest.replace((200_000).to_bytes(4, "little"), (500).to_bytes(4, "little"), 1)


SHORT = packed(b"x" * 100)
LONG = packed(bytes(50_000_000))


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (SHORT, "None"),
        (LONG, "would unpack to 50,000,000 bytes; at most 1,000,000 are allowed"),
        (packed(b"x", write_content_size=False), "its header does not state its unpacked size"),
        (SHORT + LONG, "unpacks to more than the 100 bytes that its header states"),
        (SHORT[:-3], "unpacks to 0 bytes, but its header states 100"),
        (packed(NOISE)[:-3], "unpacks to 299,997 bytes, but its header states 300,000"),
        (lying(), "is not a complete zstd file"),
        (SHORT + b"hidden", "is not a complete zstd file"),
        (b"PK\x03\x04", "is not a complete zstd file"),
        (b"", "is not a complete zstd file"),
    ],
    ids=range(10),
)
def test_lines_are_refused_before_they_grow(tmp_path: Path, data: bytes, problem: str) -> None:
    path = tmp_path / "transcript.jsonl.zst"
    path.write_bytes(data)
    assert str(lines_problem(path, 1_000_000)).startswith(problem)


def test_a_table_is_refused_before_it_grows(tmp_path: Path) -> None:
    path = tmp_path / "ledger.parquet"
    pq.write_table(pa.table({"a": pa.array([0] * 1000)}), path)

    assert table_problem(path, 1_000_000, 1000) is None
    assert (
        table_problem(path, 1_000_000, 999) == "has 1,000 rows, but the longest window has 999 days"
    )

    pq.write_table(pa.table({"a": pa.repeat(0, 1_000_000)}), path)
    assert path.stat().st_size < 10_000
    assert (
        table_problem(path, 1_000_000, 1_000_000)
        == "would unpack to 8,000,000 bytes; at most 1,000,000 are allowed"
    )

    pq.write_table(pa.table({"a": ["x" * 5_000_000]}), path, compression="zstd")
    assert "would unpack to" in str(table_problem(path, 1_000_000, 10))

    path.write_bytes(b"PAR1 is not enough PAR1")
    assert str(table_problem(path, 1_000_000, 10)).startswith("is not a Parquet file")


def test_an_archive_in_the_place_of_a_record_is_a_finding_on_it(board: Path, whole: Path) -> None:
    files = submit(board, whole)
    episode = card_of(whole)["episodes"][0]["id"]
    renew(board, files, f"episodes/{episode}/transcript.jsonl.zst", packed(bytes(50_000_000)))
    renew(board, files, f"episodes/{episode}/ledger.parquet", b"nothing")
    evidence = check_records(recorded_card(board, files, unpacked_mb=1))
    found = {(Path(finding.path).name, finding.rule) for finding in evidence.findings}

    assert found == {("transcript.jsonl.zst", "size"), ("ledger.parquet", "size")}


def test_a_table_with_a_false_footer_is_stopped_by_the_memory_limit(
    board: Path, whole: Path
) -> None:
    """A million references to one long text: little on disk and by its footer, a terabyte in
    memory.
    """
    files = submit(board, whole)
    text = pa.DictionaryArray.from_arrays(pa.array([0] * 1_000_000, pa.int32()), ["x" * 1_000_000])
    orders = pa.ListArray.from_arrays(pa.array([0, 1_000_000], pa.int32()), text)
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"orders": orders}), sink, compression="zstd", store_schema=False)
    bomb = sink.getvalue().to_pybytes()

    assert len(bomb) < 10_000

    episode = card_of(whole)["episodes"][0]["id"]
    renew(board, files, f"episodes/{episode}/ledger.parquet", bomb)
    evidence = check_records(recorded_card(board, files, unpacked_mb=16))

    assert {finding.rule for finding in evidence.findings} <= {"ledger", "size", "records"}
    assert evidence.findings
    assert evidence.tier == "self-reported"


@pytest.mark.exhaustive
def test_a_job_that_takes_too_long_is_ended_and_the_next_one_is_done(
    board: Path, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = recorded_card(board, submit(board, whole))
    with monkeypatch.context() as patch:
        for name in ("_SPARE_SECONDS", "_SECONDS_OF_EPISODE"):
            patch.setattr(records, name, 0)

        (finding,) = check_records(case).findings

    assert (finding.rule, finding.message) == ("size", "takes more than 0 seconds to execute again")
    assert check_records(case).tier == "re-executed"
