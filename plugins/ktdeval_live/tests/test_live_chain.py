"""Chain of a forward test: links hold, a torn line is cut off, and any change breaks it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ktdeval.errors import StoreError, VerificationError
from ktdeval_live.record.chain import Begun, Frozen, Gap, RecordChain, read_chain

Lines = list[dict[str, Any]]


def begun() -> Begun:
    return Begun(plan="a" * 64, schedules={}, base={}, files={}, systems={}, software="0")


def chain_of_four(path: Path) -> RecordChain:
    chain = RecordChain(path)
    chain.append(begun(), "2026-01-05T20:00:00Z")
    for number, day in enumerate(("2026-01-05", "2026-01-06")):
        frozen = Frozen(market="us", day=day, increment="b" * 64, number=0)
        chain.append(frozen, f"2026-01-0{number + 5}T21:15:00Z")

    gap = Gap(entrant="one", market="us", day="2026-01-06", cause="missed", detail="nobody came")
    chain.append(gap, "2026-01-07T14:30:00Z")

    return chain


def test_chain_reads_back_as_it_was_written(tmp_path: Path) -> None:
    written = chain_of_four(tmp_path / "chain.jsonl")
    read = RecordChain(tmp_path / "chain.jsonl")

    assert read.entries == written.entries
    assert read.head == written.head
    assert [entry.previous for entry in read.entries[1:]] == [
        entry.hash for entry in read.entries[:-1]
    ]


@pytest.mark.slow
def test_line_that_a_killed_process_left_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "chain.jsonl"
    whole = chain_of_four(path).entries
    data = path.read_bytes()

    assert len(data) > 200

    for size in range(len(data) - 200, len(data)):
        path.write_bytes(data[:size])
        chain = RecordChain(path)
        assert chain.entries == whole[:-1]
        chain.append(whole[-1].body, whole[-1].at)
        assert path.read_bytes() == data


def _drop(number: int) -> Callable[[Lines], Lines]:
    return lambda lines: lines[:number] + lines[number + 1 :]


def _swap(lines: Lines) -> Lines:
    return [lines[0], lines[2], lines[1], lines[3]]


def _twice(lines: Lines) -> Lines:
    return [*lines, lines[-1]]


def _other_day(lines: Lines) -> Lines:
    lines[1]["body"]["day"] = "2026-01-04"
    return lines


def _earlier(lines: Lines) -> Lines:
    lines[2]["at"] = "2026-01-05T00:00:00Z"
    return lines


def _begins_twice(lines: Lines) -> Lines:
    lines[3]["body"] = lines[0]["body"]
    return lines


@pytest.mark.parametrize(
    "change",
    [_drop(0), _drop(1), _drop(2), _swap, _twice, _other_day, _earlier, _begins_twice],
    ids=["first", "second", "third", "swapped", "twice", "changed", "backdated", "begins twice"],
)
def test_changed_chain_does_not_hold(tmp_path: Path, change: Callable[[Lines], Lines]) -> None:
    path = tmp_path / "chain.jsonl"
    chain_of_four(path)
    lines = change([json.loads(line) for line in path.read_text("utf-8").splitlines()])
    text = "".join(
        json.dumps(line, sort_keys=True, separators=(",", ":"), ensure_ascii=False) + "\n"
        for line in lines
    )
    path.write_text(text, "utf-8")

    with pytest.raises(VerificationError, match=r"chain\.jsonl: line \d"):
        read_chain(path)


def test_line_that_is_no_entry_names_its_field(tmp_path: Path) -> None:
    path = tmp_path / "chain.jsonl"
    chain_of_four(path)
    path.write_text(path.read_text("utf-8").replace('"missed"', '"bored"'), "utf-8")

    with pytest.raises(StoreError, match=r"line 4: body\.cause"):
        read_chain(path)
