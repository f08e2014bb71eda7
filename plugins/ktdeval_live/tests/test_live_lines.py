"""Files of lines: whole after a kill and on a full disk; and clocks in whole seconds."""

from __future__ import annotations

import resource
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ktdeval.errors import StoreError
from ktdeval_live.days.clock import FileClock, SystemClock
from ktdeval_live.record.append_only_file import append_line, whole_lines


@pytest.mark.parametrize("torn", [b"", b"3", b"{" * 5000])
def test_end_without_a_line_break_is_no_line_and_is_cut_off_by_the_next(
    tmp_path: Path, torn: bytes
) -> None:
    path = tmp_path / "lines"
    for line in ("1", "2"):
        append_line(path, line)

    path.write_bytes(path.read_bytes() + torn)

    assert whole_lines(path) == [b"1", b"2"]
    assert path.read_bytes() == b"1\n2\n" + torn  # reading changes nothing

    append_line(path, "4")
    assert path.read_bytes() == b"1\n2\n4\n"


@pytest.mark.parametrize("room", [0, 1, 50, 99])
def test_line_is_written_whole_or_not_at_all(tmp_path: Path, room: int) -> None:
    path = tmp_path / "lines"
    append_line(path, "1")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2 + room, hard))

    try:
        with pytest.raises(StoreError, match="free space on the disk"):
            append_line(path, "x" * 99)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert path.read_bytes() == b"1\n"

    append_line(path, "x" * 99)
    assert len(whole_lines(path)) == 2


def test_clocks_count_whole_seconds(tmp_path: Path) -> None:
    """The chain does: data that became known at a part of a second would be later than their entry."""
    assert SystemClock().now().microsecond == 0

    file = tmp_path / "clock"
    file.write_text("2026-01-05T21:30:00.750+00:00", "utf-8")

    assert FileClock(file).now() == datetime(2026, 1, 5, 21, 30, tzinfo=UTC)
