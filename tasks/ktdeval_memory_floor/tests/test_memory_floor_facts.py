"""Facts that a market offers for questions: only those that are defined."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

from ktdeval.market import (
    Instrument,
    MarketSnapshot,
    SnapshotMeta,
    load_snapshot,
    sessions,
    window_rows,
)
from ktdeval_memory_floor.market_facts import (
    MonthFact,
    best_constant_share,
    close_facts,
    code_facts,
    is_close_right,
    month_facts,
    possible_splits,
    spelled_alike,
)
from ktdeval_memory_floor.questions import deal, deal_months, is_copied
from support.accept.accept_runs import import_real

FIRST, LAST = "2024-01-29", "2024-05-10"
DAYS = sessions(FIRST, LAST)


def row_of(day: str) -> int:
    return int(np.searchsorted(DAYS, np.datetime64(day)))


MARCH_END = row_of("2024-03-29")
FEBRUARY_END = row_of("2024-02-29")
APRIL_END = row_of("2024-04-30")
BANKS = ("600001.SH", "600002.SH", "600003.SH", "600004.SH")


def market(**changes: Any) -> MarketSnapshot:
    """Four banks whose price rises by one per cent a day."""
    shape = (len(DAYS), len(BANKS))
    close = np.round(10.0 * 1.01 ** np.arange(len(DAYS)), 4)[:, None] * np.ones(shape)
    fields: dict[str, Any] = {
        "meta": SnapshotMeta("four", "by hand", synthetic=True, has_factor=True, benchmark=""),
        "days": DAYS,
        "codes": BANKS,
        "names": ("North Bank", "South Bank", "East Bank", "West Bank"),
        "industries": ("banks",) * 4,
        **{name: close.copy() for name in ("open", "high", "low", "close")},
        "volume": np.ones(shape),
        "amount": np.ones(shape),
        "factor": np.ones(shape),
        "member": np.ones(shape, dtype=bool),
        "indices": {},
        "index_names": {},
    }
    return MarketSnapshot(**{**fields, **changes})


def changed(field: str, rows: Any, asset: int, value: Any, **more: Any) -> MarketSnapshot:
    """The market, with one asset's values changed on some rows."""
    array = getattr(market(), field).copy()
    array[rows, asset] = value
    return market(**{field: array}, **more)


def months_of(snapshot: MarketSnapshot, asset: int) -> list[tuple[str, bool]]:
    facts = month_facts(snapshot, 1, len(DAYS))
    return [(str(DAYS[fact.row])[:7], fact.rises) for fact in facts if fact.asset == asset]


# ---- months


def test_a_month_counts_from_the_last_close_before_it_to_its_own_last_close() -> None:
    facts = [fact for fact in month_facts(market(), 1, len(DAYS)) if fact.asset == 0]
    january_end = row_of("2024-01-31")

    assert facts == [
        MonthFact(0, january_end, FEBRUARY_END, True),
        MonthFact(0, FEBRUARY_END, MARCH_END, True),
        MonthFact(0, MARCH_END, APRIL_END, True),
    ]


def test_the_first_and_the_last_month_of_the_data_are_not_asked() -> None:
    assert [month for month, _ in months_of(market(), 0)] == ["2024-02", "2024-03", "2024-04"]


def test_only_months_that_lie_whole_in_the_window_are_asked() -> None:
    inside = month_facts(market(), FEBRUARY_END + 1, MARCH_END + 1)
    one_day_short = month_facts(market(), FEBRUARY_END + 2, MARCH_END + 1)

    assert {str(DAYS[fact.row])[:7] for fact in inside} == {"2024-03"}
    assert one_day_short == []


def test_a_fall_and_an_unchanged_price() -> None:
    fallen = changed("close", MARCH_END, 0, 1.0)
    assert months_of(fallen, 0) == [("2024-02", True), ("2024-03", False), ("2024-04", True)]

    flat = changed("close", MARCH_END, 0, market().close[FEBRUARY_END, 0])
    assert [month for month, _ in months_of(flat, 0)] == ["2024-02", "2024-04"]


@pytest.mark.parametrize(
    ("field", "value"),
    [("close", np.nan), ("volume", 0.0), ("member", False)],
    ids=["no bar", "suspended", "no member"],
)
def test_a_month_without_a_close_at_its_end_is_not_asked_nor_is_the_next(
    field: str, value: Any
) -> None:
    assert [month for month, _ in months_of(changed(field, MARCH_END, 1, value), 1)] == ["2024-02"]


def test_an_asset_listed_later_is_asked_from_its_first_whole_month() -> None:
    late = changed("close", slice(0, FEBRUARY_END + 1), 2, np.nan)
    assert [month for month, _ in months_of(late, 2)] == ["2024-04"]


def test_a_month_whose_direction_depends_on_the_price_basis_is_not_asked() -> None:
    """Two for one in March: the close as traded halves, the adjusted one rises."""
    close, factor = market().close.copy(), market().factor.copy()
    close[MARCH_END - 5 :, 3] /= 2.0
    factor[MARCH_END - 5 :, 3] = 2.0
    split = market(close=close, factor=factor)

    assert [month for month, _ in months_of(split, 3)] == ["2024-02", "2024-04"]


def test_without_a_factor_a_move_like_a_split_is_not_asked() -> None:
    close = market().close.copy()
    close[MARCH_END - 5 :, 3] /= 1.5
    meta = replace(market().meta, has_factor=False)
    split = market(close=close, meta=meta)

    assert [month for month, _ in months_of(split, 3)] == ["2024-02", "2024-04"]
    assert np.argwhere(possible_splits(split)).tolist() == [[MARCH_END - 5, 3]]
    assert MARCH_END - 5 not in close_facts(split, 1, len(DAYS))[3]


@pytest.mark.shared_data
def test_months_of_a_real_market_agree_with_pandas(shared_data: Path, tmp_path: Path) -> None:
    """The CSI300, resampled by pandas: every month that is asked, and its direction."""
    real = load_snapshot(import_real(shared_data, tmp_path / "csi300"))
    start, stop = window_rows(real.days, "2024-01-02", "2025-12-31")
    facts = month_facts(real, start, stop)
    frame = pd.DataFrame(real.close, index=pd.DatetimeIndex(real.days), columns=list(real.codes))
    moves = frame.resample("ME").last().pct_change(fill_method=None)

    assert len(facts) > 6000
    for fact in facts:
        day = pd.Timestamp(str(real.days[fact.row]))
        move = moves.at[day + pd.offsets.MonthEnd(0), real.codes[fact.asset]]
        assert (move > 0) == fact.rises


# ---- closes


def test_a_close_is_not_asked_where_it_is_undefined() -> None:
    suspended = changed("volume", 10, 0, 0.0)
    split = changed("factor", slice(20, None), 1, 2.0)

    assert 10 not in close_facts(suspended, 1, len(DAYS))[0]
    assert 20 not in close_facts(split, 1, len(DAYS))[1]
    assert close_facts(market(), 5, 8) == {asset: [5, 6, 7] for asset in range(4)}


def test_a_close_is_right_within_ten_per_cent() -> None:
    assert is_close_right(90.0, 100.0)
    assert is_close_right(110.0, 100.0)
    assert not is_close_right(89.9, 100.0)
    assert not is_close_right(110.1, 100.0)


def test_the_best_constant_by_hand() -> None:
    """One answer of 110 is right for 100 and 120, so for 3 of 4; 10 is far off."""
    closes = np.array([100.0, 10.0, 120.0, 101.0])
    assert best_constant_share(closes, np.ones(4)) == pytest.approx(0.75)
    assert best_constant_share(closes, np.array([1.0, 7.0, 1.0, 1.0])) == pytest.approx(0.7)


@given(st.lists(st.floats(0.01, 1000.0), min_size=1, max_size=30))
def test_no_constant_answer_beats_the_best_one(prices: list[float]) -> None:
    closes = np.array(prices)
    best = best_constant_share(closes, np.ones(len(closes)))
    candidates = np.concatenate([closes, closes / 0.9, closes * 1.1, closes * 0.9, closes / 1.1])
    tried = [np.mean([is_close_right(answer, close) for close in closes]) for answer in candidates]

    assert best >= max(tried) - 1e-12
    assert best == pytest.approx(max(tried)) or best - max(tried) <= 1 / len(closes)


# ---- codes


def test_a_code_is_asked_among_companies_of_one_industry() -> None:
    facts = code_facts(market(), 1, len(DAYS))
    assert [(fact.asset, fact.peers) for fact in facts] == [
        (0, (1, 2, 3)),
        (1, (0, 2, 3)),
        (2, (0, 1, 3)),
        (3, (0, 1, 2)),
    ]


@pytest.mark.parametrize(
    "changes",
    [
        {"names": BANKS},
        {"names": ("North Bank", "South Bank", "East Bank", "600004 Bank")},
        {"names": ("North Bank", "South Bank", "East Bank", "East Bank")},
        {"industries": ("banks", "banks", "banks", "steel")},
    ],
    ids=["names unknown", "name with the code", "equal names", "three of an industry"],
)
def test_no_code_is_asked_where_the_name_does_not_tell_four_companies_apart(changes: Any) -> None:
    assert code_facts(market(**changes), 1, len(DAYS)) == []


def test_a_ticker_whose_letters_are_in_the_name_is_asked() -> None:
    codes = ("A", "C", "D", "ON")
    shares = {
        "codes": codes,
        "names": ("Agilent", "Citigroup", "Dominion", "Onsemi"),
        "instruments": (Instrument("stock", "USD", "us_equity"),) * 4,
    }
    assert len(code_facts(market(**shares), 1, len(DAYS))) == 4

    unknown = {**shares, "names": ("Agilent", "Citigroup", "Dominion", "ON Corp")}
    assert code_facts(market(**unknown), 1, len(DAYS)) == []


def test_a_ticker_may_be_spelled_like_the_name() -> None:
    assert spelled_alike("MSFT", "Microsoft") == 1.0
    assert spelled_alike("AAPL", "Apple Inc.") == 0.75
    assert spelled_alike("T", "AT&T") == 1.0
    assert spelled_alike("XOM", "Apple Inc.") == 0.0
    assert spelled_alike("600519.SH", "Shanghai 600519") == 0.0


# ---- draws


@given(st.integers(0, 1000), st.integers(1, 14))
def test_the_sample_has_as_many_rising_months_as_the_market(seed: int, count: int) -> None:
    facts = month_facts(changed("close", MARCH_END, 0, 1.0), 1, len(DAYS))
    assert len(facts) == 12

    dealt = deal_months(facts, count, seed, market())
    rising = sum(fact.rises for fact in dealt)

    assert len(dealt) == len(set(dealt)) == min(count, 12)
    assert rising == round(len(dealt) * 11 / 12)


def test_assets_take_turns_and_the_draw_depends_on_the_seed() -> None:
    facts = month_facts(market(), 1, len(DAYS))
    dealt = deal(facts, 8, 5, market())

    assert [fact.asset for fact in dealt[:4]] == [fact.asset for fact in dealt[4:]]
    assert {fact.asset for fact in dealt[:4]} == {0, 1, 2, 3}
    assert dealt == deal(facts, 8, 5, market())
    assert any(deal(facts, 8, seed, market()) != dealt for seed in range(5))


def test_a_probability_is_copied_if_it_stands_in_the_prompt() -> None:
    text = "close of the day: 0.82, 12 % of 7"
    assert is_copied(0.82, text)
    assert is_copied(0.12, text)
    assert not is_copied(0.8, text)
    assert not is_copied(1.0, "1 of 2")
