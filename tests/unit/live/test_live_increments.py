"""Days of a forward test as they became known: filled in, revised, refused."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from ktdeval.errors import DataError
from ktdeval.market import Document, MarketSnapshot
from ktdeval.testing import random_snapshot
from ktdeval_live.day_sources import StoredDays
from ktdeval_live.market_increments import (
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


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("code", "NOBODY", "has no such code"),
        ("open", 0.0, "above zero"),
        ("close", float("nan"), "finite"),
        ("high", 1e-6, "between low and high"),
        ("volume", -1.0, "no count|not a count"),
        ("factor", 0.0, "must be above zero"),
    ],
)
def test_row_that_can_not_be_is_refused(
    market: MarketSnapshot, field: str, value: object, words: str
) -> None:
    first = increment_of(market, 50)
    wrong = Bar(**{**_fields(first.bars[0]), field: value})
    increment = Increment(market="m", day=first.day, known_at=NOW, bars=(wrong,))
    with pytest.raises(DataError, match=words):
        check_increment(increment, market)


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
