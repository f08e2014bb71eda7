"""Days of a forward test as they became known: filled in, revised, refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from inline_snapshot import snapshot

from ktdeval.errors import DataError
from ktdeval.market import Document, MarketSnapshot
from ktdeval.testing import errors_with, random_snapshot
from ktdeval_live.days.day_sources import StoredDays
from ktdeval_live.days.market_increments import (
    Bar,
    Increment,
    Item,
    check_increment,
    days_before,
    market_as_known,
    revision,
)

NOW = datetime(2026, 1, 5, 21, 15, tzinfo=UTC)


@pytest.fixture(scope="module")
def market() -> MarketSnapshot:
    return random_snapshot(seed=3, n_days=60)


def increment_of(market: MarketSnapshot, row: int) -> Increment:
    found = StoredDays(market).day("m", str(market.days[row]), NOW)
    assert found is not None
    return found


def test_days_one_by_one_give_the_whole_market(market: MarketSnapshot) -> None:
    base = days_before(market, 50)
    days = [str(day) for day in market.days[50:]]
    increments = [increment_of(market, row) for row in range(50, 60)]
    known = market_as_known(base, days, increments)

    for name in ("open", "high", "low", "close", "factor"):
        np.testing.assert_array_equal(getattr(known, name), getattr(market, name), name)

    for code, levels in market.indices.items():
        np.testing.assert_array_equal(known.indices[code], levels)


def test_days_to_come_have_no_bars(market: MarketSnapshot) -> None:
    base = days_before(market, 50)
    days = [str(day) for day in market.days[50:]]
    known = market_as_known(base, days, [increment_of(market, 50)])

    assert np.isfinite(known.close[50]).any()
    assert np.isnan(known.close[51:]).all()
    assert np.isnan(known.volume[51:]).all()


def test_revision_has_the_rows_that_differ_and_counts_from_then_on(market: MarketSnapshot) -> None:
    first = increment_of(market, 50)
    changed = first.bars[0]
    later = Bar(**{**_fields(changed), "volume": changed.volume + 100})
    now = Increment(
        market="m",
        day=first.day,
        known_at=NOW,
        bars=(later, *first.bars[1:]),
        indices=first.indices,
    )
    found = revision([first], now)

    assert found is not None
    assert found.bars == (later,)
    assert found.revises == first.hash
    assert revision([first, found], now) is None

    base = days_before(market, 50)
    days = [str(day) for day in market.days[50:]]
    before = market_as_known(base, days, [first])
    after = market_as_known(base, days, [first, found])
    column = market.codes.index(later.code)

    assert after.volume[50, column] == before.volume[50, column] + 100


def _fields(bar: Bar) -> dict[str, Any]:
    return {name: getattr(bar, name) for name in bar.__struct_fields__}


def test_row_that_can_not_be_is_refused(market: MarketSnapshot) -> None:
    first = increment_of(market, 50)

    def check_with(**change: object) -> None:
        wrong = Bar(**{**_fields(first.bars[0]), **change})
        check_increment(Increment(market="m", day=first.day, known_at=NOW, bars=(wrong,)), market)

    assert errors_with(
        check_with,
        {"code": "NOBODY"},
        {"open": 0.0},
        {"close": float("nan")},
        {"high": 1e-6},
        {"low": 1e6},
        {"volume": -1.0},
        {"volume": float("nan")},
        {"amount": -1.0},
        {"amount": float("inf")},
        {"factor": 0.0},
        {"factor": float("inf")},
        {"factor_change": 0.0},
    ) == snapshot("""\
DataError: m 2023-03-13 NOBODY: the market of this test does not have this code, and its assets were fixed when the test began; remove the row
DataError: m 2023-03-13 009000.SZ: prices must be finite and above zero, were [0.0, 9.19, 9.05, 9.15]
DataError: m 2023-03-13 009000.SZ: prices must be finite and above zero, were [9.09, 9.19, 9.05, nan]
DataError: m 2023-03-13 009000.SZ: open and close must lie between low and high, were [9.09, 1e-06, 9.05, 9.15]
DataError: m 2023-03-13 009000.SZ: open and close must lie between low and high, were [9.09, 9.19, 1000000.0, 9.15]
DataError: m 2023-03-13 009000.SZ: volume -1.0 is not a count of shares
DataError: m 2023-03-13 009000.SZ: volume nan is not a count of shares
DataError: m 2023-03-13 009000.SZ: amount -1.0 is not an amount of money
DataError: m 2023-03-13 009000.SZ: amount inf is not an amount of money
DataError: m 2023-03-13 009000.SZ: factor 0.0 must be above zero
DataError: m 2023-03-13 009000.SZ: factor inf must be above zero
DataError: m 2023-03-13 009000.SZ: factor 0.0 must be above zero
""")


@pytest.mark.parametrize(
    ("field", "value"),
    [("volume", 0.0), ("volume", 0.5), ("amount", 0.0), ("amount", None), ("factor_change", 0.5)],
)
def test_row_at_the_edge_of_what_can_be_is_taken(
    market: MarketSnapshot, field: str, value: float | None
) -> None:
    first = increment_of(market, 50)
    row = Bar(**{**_fields(first.bars[0]), field: value})

    check_increment(Increment(market="m", day=first.day, known_at=NOW, bars=(row,)), market)


@pytest.mark.parametrize("level", [0.0, -1.0, float("nan"), float("inf")])
def test_level_of_an_index_that_can_not_be_is_refused(market: MarketSnapshot, level: float) -> None:
    code = next(iter(market.indices))
    increment = Increment(
        market="m", day="2020-01-02", known_at=NOW, bars=(), indices={code: level}
    )

    with pytest.raises(DataError, match=f"{code}: level {level} is not > 0"):
        check_increment(increment, market)


def test_index_that_the_market_has_not_is_refused(market: MarketSnapshot) -> None:
    increment = Increment(
        market="m", day="2020-01-02", known_at=NOW, bars=(), indices={"NONE": 1.0}
    )

    with pytest.raises(DataError, match="m 2020-01-02: the market has no index NONE"):
        check_increment(increment, market)


def with_document(late_s: int, *assets: str) -> Increment:
    """Return an increment with a document that was known some seconds after it."""
    known_at = NOW + timedelta(seconds=late_s)
    document = Document(NOW, known_at, "wire", "news", assets, "news", "text")

    return Increment(
        market="m", day="2020-01-02", known_at=NOW, bars=(), documents=(Item.of(document),)
    )


def test_document_known_at_the_moment_of_its_increment_is_taken(market: MarketSnapshot) -> None:
    check_increment(with_document(0), market)
    check_increment(with_document(0, market.codes[0]), market)


@pytest.mark.parametrize(
    ("late_s", "assets", "words"),
    [
        (1, (), "the document 'news' became known at 2026-01-05T21:15:01"),
        (0, ("NOBODY",), "m 2020-01-02: document on unknown NOBODY"),
    ],
)
def test_document_that_is_late_or_of_unknown_assets_is_refused(
    market: MarketSnapshot, late_s: int, assets: tuple[str, ...], words: str
) -> None:
    with pytest.raises(DataError, match=words):
        check_increment(with_document(late_s, *assets), market)


def test_code_with_two_rows_is_refused(market: MarketSnapshot) -> None:
    first = increment_of(market, 50)
    bars = (first.bars[0], first.bars[0])
    increment = Increment(market="m", day=first.day, known_at=NOW, bars=bars)

    with pytest.raises(DataError, match="two rows"):
        check_increment(increment, market)


def test_item_has_each_field_of_a_document() -> None:
    assert set(Document._fields) <= set(Item.__struct_fields__)

    fields = dict.fromkeys(Document._fields, "words") | {
        "published_at": NOW, "known_at": NOW, "assets": ("609001.SH",),
    }  # fmt: skip
    document = Document(**fields)  # type: ignore[arg-type]

    assert Item.of(document).document() == document
