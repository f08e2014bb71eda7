"""The journal: what was appended survives, what was torn never was."""

from __future__ import annotations

import resource

import pytest

from ktdeval.errors import StoreError
from ktdeval.runner.journal import Journal, read_journal


def test_appended_records_are_recovered_in_order_and_nan_never_reaches_the_disk(tmp_path):
    path = tmp_path / "journal.jsonl"
    with Journal(path, dict) as journal:
        assert journal.recovered == []
        journal.append({"step": 0})
        with pytest.raises(ValueError, match="JSON"):
            journal.append({"nav": float("nan")})
        journal.append({"step": 1, "text": "多行\n文本"})
    with Journal(path, dict) as journal:
        assert journal.recovered == [{"step": 0}, {"step": 1, "text": "多行\n文本"}]


def test_a_line_torn_at_any_byte_is_cut_off_and_the_rest_is_kept(tmp_path):
    path = tmp_path / "journal.jsonl"
    for torn in range(1, 15):
        path.write_bytes(b'{"step":0}\n' + b'{"a":2,"step":1}\n'[:torn])
        with Journal(path, dict) as journal:
            assert journal.recovered == [{"step": 0}]
            journal.append({"step": 1, "again": True})
        assert list(read_journal(path, dict)) == [{"step": 0}, {"step": 1, "again": True}]


def test_a_full_disk_is_one_error_and_loses_nothing(tmp_path):
    """Files that may not grow past 300 bytes stand for a full disk."""
    path, (_, most) = tmp_path / "journal.jsonl", resource.getrlimit(resource.RLIMIT_FSIZE)
    with Journal(path, dict) as journal:
        resource.setrlimit(resource.RLIMIT_FSIZE, (300, most))
        try:
            for step in range(4):
                journal.append({"step": step, "text": "x" * 50})
            with pytest.raises(StoreError) as failed:
                journal.append({"step": 4, "text": "x" * 50})
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    kept = [record["step"] for record in read_journal(path, dict)]
    assert kept == [0, 1, 2, 3]
    assert f"all {len(kept)} finished records are kept" in str(failed.value)
    assert "run the same command again to resume" in str(failed.value)
