"""The money book: what was booked survives, what was torn never was, and sums are over whole books only."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from ktdeval.calls.book import CACHED, CallBook, CallRecord, Spent, read_calls
from ktdeval.errors import StoreError
from ktdeval.harness.messages import Usage

KEY = "0123456789abcdef"
PAID = CallRecord("2026-01-31T23:59:59.123Z", "e1", KEY, "answered", 1, 2.5, Usage(100, 20, 5, 60, 7), 0.25, 0.0, "m")
FAILED = CallRecord("2026-01-31T23:59:59.500Z", "e1", KEY, "timeout", 2, 120.0, held_usd=0.5)
UNPRICED = dataclasses.replace(PAID, attempt=3, cost_usd=None)
FROM_CACHE = dataclasses.replace(PAID, outcome=CACHED)
RECORDS = [PAID, FAILED, UNPRICED, FROM_CACHE]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "calls.jsonl"


def write(path: Path, *records: CallRecord) -> bytes:
    with CallBook(path) as book:
        book.append_many(records)
    return path.read_bytes()


def test_records_come_back_in_order_and_as_they_were(path):
    write(path, *RECORDS[:2])
    write(path, *RECORDS[2:])
    assert list(read_calls(path)) == RECORDS


def test_a_line_is_a_json_object_of_all_fields(path):
    line = write(path, PAID).decode()
    assert line.endswith("\n")
    assert set(json.loads(line)) == {field.name for field in dataclasses.fields(CallRecord)}
    assert json.loads(line)["usage"] == {
        "input_tokens": 100,
        "output_tokens": 20,
        "reasoning_tokens": 5,
        "cache_read_tokens": 60,
        "cache_write_tokens": 7,
    }


def test_what_a_provider_calls_itself_can_always_be_written(path):
    write(path, dataclasses.replace(PAID, served_by="m\ud800\n模型"))
    assert [record.served_by for record in read_calls(path)] == ["m?\n模型"]


def test_spent_is_the_sum_of_what_was_paid_before_and_after_a_resume(path):
    assert CallBook(path).spent == Spent()
    with CallBook(path) as book:
        book.append_many([PAID, FAILED])
        assert book.spent == Spent(0.25, 0.5, 100, 20)
    with CallBook(path) as book:
        assert book.spent == Spent(0.25, 0.5, 100, 20)
        book.append_many([UNPRICED, FROM_CACHE, PAID])
        assert book.spent == Spent(0.5, 0.5, 300, 60)


def test_a_book_that_is_not_there_holds_nothing(path):
    assert list(read_calls(path)) == []
    assert list(read_calls(path.parent / "no run" / "calls.jsonl")) == []


def test_a_line_torn_at_any_byte_is_cut_off_and_the_rest_is_kept(path):
    first = write(path, PAID)
    whole = write(path, FAILED)
    for size in range(len(first) + 1, len(whole)):
        path.write_bytes(whole[:size])
        assert list(read_calls(path)) == [PAID]
        with CallBook(path) as book:
            assert book.spent == Spent(0.25, 0.0, 100, 20)
        assert path.read_bytes() == first
    assert write(path, FAILED) == whole


BROKEN = {
    "no JSON": b'{"at":',
    "NaN": PAID.to_line().replace(b"0.25", b"NaN"),
    "no object": b"[1]",
    "deep": b"[" * 100_000,
    "a field less": json.dumps({"at": "", "episode": ""}).encode(),
    "a field more": PAID.to_line().replace(b'"at"', b'"extra":1,"at"'),
    "text for a number": PAID.to_line().replace(b"0.25", b'"0.25"'),
    "a truth value for a number": PAID.to_line().replace(b"0.25", b"true"),
    "a fraction of a token": PAID.to_line().replace(b'"input_tokens":100', b'"input_tokens":100.5'),
    "no UTF-8": PAID.to_line().replace(b'"e1"', b'"\xff"'),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_line_that_is_no_record_is_an_error_that_names_it_and_nothing_is_changed(path, how):
    data = PAID.to_line() + BROKEN[how].rstrip(b"\n") + b"\n" + FAILED.to_line()
    path.write_bytes(data)
    with pytest.raises(StoreError, match=r"calls\.jsonl:2: not the record of a call: .*; restore the file, or delete the line"):
        CallBook(path)
    with pytest.raises(StoreError, match=r"calls\.jsonl:2: "):
        list(read_calls(path))
    assert path.read_bytes() == data


@pytest.mark.parametrize("wrong", [{"cost_usd": float("nan")}, {"latency_s": float("inf")}])
def test_what_is_no_number_never_reaches_the_disk(path, wrong):
    with CallBook(path) as book, pytest.raises(ValueError, match="JSON"):
        book.append_many([PAID, dataclasses.replace(PAID, **wrong)])
    assert path.read_bytes() == b""


def test_a_place_that_can_not_be_written_is_one_line(tmp_path):
    for place in (tmp_path, tmp_path / "no folder" / "calls.jsonl"):
        with pytest.raises(StoreError, match=r": can't open the record of calls: .*; free space or mend access") as caught:
            CallBook(place)
        assert "\n" not in str(caught.value)
    with pytest.raises(StoreError, match="can't read the record of calls"):
        list(read_calls(tmp_path))


def test_a_full_disk_is_one_error_loses_nothing_and_can_be_mended(path):
    """A real process whose files may not grow past 2,000 bytes, and then may, stands for a disk that is full for a while."""
    program = """
    import dataclasses, resource, signal, sys
    from pathlib import Path
    from ktdeval.calls.book import CallBook, CallRecord
    from ktdeval.errors import StoreError
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, resource.RLIM_INFINITY))
    book = CallBook(Path(sys.argv[1]))
    record = CallRecord("2026-01-31T23:59:59Z", "e1", "0" * 16, "answered", 1, 1.0, None, 0.5)
    for number in range(100):
        try:
            book.append_many([record, record])
        except StoreError as error:
            print(number, book.spent.cost_usd, error)
            break
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    book.append_many([dataclasses.replace(record, episode="after")])
    """
    command = [sys.executable, "-c", textwrap.dedent(program), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    number, cost_usd, message = done.stdout.split(" ", 2)
    kept = 2 * int(number)
    assert kept > 2
    assert float(cost_usd) == kept * 0.5
    assert f"can't write the record of calls: File too large; its {kept} records are kept" in message
    assert "run the same command again to resume" in message
    assert [record.episode for record in read_calls(path)] == ["e1"] * kept + ["after"]


# ---- what a killed process meant to write


def lines_of(*records: CallRecord) -> bytes:
    return b"".join(record.to_line() for record in records)


@pytest.mark.parametrize("written", [0, 1, 2, 3])
@pytest.mark.parametrize("torn", [0, 40])
def test_recovering_adds_what_is_missing_once(path, written, torn):
    start = len(write(path, PAID))
    meant = [FAILED, UNPRICED, FROM_CACHE]
    path.write_bytes(lines_of(PAID, *meant[:written]) + lines_of(*meant[written:])[:torn])
    for expected in (3 - written, 0):
        with CallBook(path) as book:
            assert book.recover(start, lines_of(*meant)) == expected
            assert book.spent == Spent(0.25, 0.5, 200, 40)
    assert list(read_calls(path)) == [PAID, *meant]


def test_recovering_leaves_alone_what_went_on_or_was_changed(path):
    start = len(write(path, PAID))
    after = write(path, UNPRICED)
    with CallBook(path) as book:
        assert book.recover(start, lines_of(FAILED, FAILED)) == 0  # another record is in their place
        assert book.recover(start + len(after), lines_of(FAILED)) == 0  # lines before them are gone
        assert book.recover(0, lines_of(PAID)) == 0  # they are there, and more after them
    assert list(read_calls(path)) == [PAID, UNPRICED]


def test_recovering_takes_nothing_that_is_no_record(path):
    with CallBook(path) as book, pytest.raises(StoreError, match="is no record of a call"):
        book.recover(0, b'{"at":1}\n')
    assert path.read_bytes() == b""
