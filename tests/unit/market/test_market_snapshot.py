from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from ktdeval.errors import DataError, LookAheadError
from ktdeval.market.assembly import assemble
from ktdeval.market.snapshot import BAR_FIELDS, Board, MarketSnapshot, board_of, parse_code
from raw_market import market


@pytest.fixture(scope="module")
def snapshot() -> MarketSnapshot:
    return assemble(market())


def test_a_view_ends_with_the_day_of_its_cursor(snapshot: MarketSnapshot) -> None:
    view = snapshot.as_of(2)
    assert len(view.days) == 3
    for name in (*BAR_FIELDS, "member", "adjusted_close", "adjusted_open"):
        assert getattr(view, name).shape == (3, 3)
    assert all(len(levels) == 3 for levels in view.indices.values())


def test_reading_past_the_cursor_raises(snapshot: MarketSnapshot) -> None:
    view = snapshot.as_of(2)
    assert view.row("close", 2).tolist() == [10.1, 10.1, 10.1]
    with pytest.raises(LookAheadError):
        view.row("close", 3)
    with pytest.raises(IndexError):
        view.close[3]
    for outside in (-1, 5):
        with pytest.raises(LookAheadError):
            snapshot.as_of(outside)


def test_arrays_can_not_be_written(snapshot: MarketSnapshot) -> None:
    for name in (*BAR_FIELDS, "member", "adjusted_close"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(snapshot, name)[0, 0] = 0


def test_shapes_and_the_benchmark_are_checked(snapshot: MarketSnapshot) -> None:
    with pytest.raises(DataError, match="close has shape"):
        dataclasses.replace(snapshot, close=np.ones((2, 3)))
    with pytest.raises(DataError, match=r"benchmark 000688\.SH has no series"):
        dataclasses.replace(snapshot, indices={})


def test_a_day_is_found_or_named(snapshot: MarketSnapshot) -> None:
    assert snapshot.day_index("2024-01-08") == 4
    with pytest.raises(DataError, match="2024-01-06 is not a trading day"):
        snapshot.day_index("2024-01-06")


BOARDS = {
    Board.MAIN: ("600519.SH", "000001.SZ"), Board.CHINEXT: ("300750.SZ", "301269.SZ"), Board.STAR: ("688981.SH", "689009.SH"),
    Board.BSE: ("835185.BJ", "430047.BJ", "920002.BJ"),
}  # fmt: skip


def test_codes_of_every_vendor_are_one_code_of_a_board() -> None:
    styles = ["600519.SH", "600519", "SH600519", "sh.600519", "600519.SS", "600519.XSHG", "600519.SHH", "sh600519", " 600519 "]
    for text in styles:
        assert parse_code(text) == "600519.SH", text
    for text in ("", "60051", "6005190", "AAPL", "600519.NY", "HK00700", "123456"):
        assert parse_code(text) is None, text
    for board, codes in BOARDS.items():
        assert [board_of(code) for code in codes] == [board] * len(codes)
        assert [parse_code(code[:6]) for code in codes] == list(codes), "bare digits go by their board"
    with pytest.raises(DataError, match="belongs to no A-share board"):
        board_of("110059.SH")
