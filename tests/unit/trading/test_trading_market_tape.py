"""How the market reads as integers: marks, limits, factor changes, suspensions."""

from __future__ import annotations

import numpy as np
import pytest

from ktdeval.errors import DataError
from ktdeval.market.snapshot import Board
from ktdeval.trading.market_tape import FactorEvent, MarketRules, MarketTape, ex_price_ticks, limit_ppm
from ktdeval.trading.terms import scaled_int
from ktdeval.trading.types import TradingConfig
from trading_market import CODES, make_market

CONFIG = TradingConfig()
MAIN, CHINEXT, STAR, BSE = CODES["main"], CODES["chinext"], CODES["star"], CODES["bse"]


def tape(
    code: str, opens: list[float | None], closes: list[float | None] | None = None, **columns: list[float | None]
) -> MarketTape:
    """A tape of one asset; `columns` are its factor and volume by day."""
    rows = {name: [[value] for value in values] for name, values in columns.items()}
    market = make_market([code], [[price] for price in opens], None if closes is None else [[price] for price in closes], **rows)
    return MarketTape.from_snapshot(market, CONFIG)


@pytest.mark.parametrize(
    ("code", "highest", "lowest"), [(MAIN, 10.94, 9.06), (CHINEXT, 11.94, 8.06), (STAR, 11.94, 8.06), (BSE, 12.94, 7.06)]
)
def test_trading_stops_half_a_point_before_the_boards_limit(code: str, highest: float, lowest: float) -> None:
    for open_, up, down in ((highest, 0, 0), (highest + 0.01, 1, 0), (lowest, 0, 0), (lowest - 0.01, 0, 1)):
        day = tape(code, [10.0, open_]).day(1)
        assert (day.limit_up[0], day.limit_down[0]) == (up, down), open_


def test_the_buffer_is_configurable_to_the_exact_limit() -> None:
    market = make_market([MAIN], [[10.0], [10.99], [12.09]])
    exact = MarketTape.from_snapshot(market, TradingConfig(limit_buffer_pct=0.0))
    assert exact.day(1).limit_up[0] == 0
    assert exact.day(2).limit_up[0] == 1, "12.09 is above 10.99 * 1.10 = 12.089"


def test_limits_count_from_the_previous_close_in_the_days_own_terms() -> None:
    first, listing = tape(MAIN, [10.0, 11.0]).day(0), tape(MAIN, [None, 99.0, 99.0], volume=[None, 5.0, 5.0]).day(1)
    assert listing.tradable[0] == 1, "a name without a previous close trades"
    split = tape(MAIN, [10.0, 5.2], factor=[1.0, 2.0]).day(1)
    assert split.events == {0: FactorEvent(2_000_000_000, 100_000, 50_000)}
    not_the_open = tape(MAIN, [20.0, 10.9], closes=[10.0, 10.9]).day(1)
    for day in (first, listing, split, not_the_open):
        assert (day.limit_up[0], day.limit_down[0]) == (0, 0)


def test_a_name_without_open_or_volume_keeps_its_mark_and_does_not_trade() -> None:
    suspended = tape(MAIN, [10.0, None, None], closes=[10.3, None, None])
    idle = tape(MAIN, [10.0, 10.5, 10.5], closes=[10.0, 10.6, 10.5], volume=[1.0, 0.0, None])
    for day, marks in (
        (suspended.day(1), (103_000, 103_000)),
        (suspended.day(2), (103_000, 103_000)),
        (idle.day(1), (100_000, 106_000)),
    ):
        assert (day.tradable[0], day.open_ticks[0], day.close_ticks[0]) == (0, *marks)
    assert idle.day(2).tradable[0] == 0


def test_whoever_reads_a_day_can_not_change_the_market() -> None:
    day = tape(MAIN, [10.0, 10.5]).day(1)
    for prices in (day.open_ticks, day.close_ticks):
        with pytest.raises(TypeError, match="read-only"):
            prices[0] = 1  # type: ignore[index]


def test_a_factor_change_during_a_suspension_corrects_the_mark() -> None:
    days = tape(MAIN, [10.0, None, None, 5.4], factor=[1.0, 1.0, 2.0, 2.0])
    assert [days.day(row).close_ticks[0] for row in range(4)] == [100_000, 100_000, 50_000, 54_000]
    assert [sorted(days.day(row).events) for row in range(4)] == [[], [], [0], []]
    assert days.day(3).limit_up[0] == 0, "judged against 5.00, not against 10.00"


def test_factor_jitter_is_ignored_until_it_has_added_up() -> None:
    days = tape(MAIN, [10.0] * 5, factor=[1.0, 1.000004, 1.000008, 1.000012, 1.000012])
    assert [bool(days.day(row).events) for row in range(5)] == [False, False, False, True, False]
    assert tape(MAIN, [None, 10.0], factor=[1.0, 7.5]).day(1).events == {}, "nothing is scaled before the first price"


def test_membership_and_smallest_orders_come_with_the_day() -> None:
    market = make_market([MAIN, STAR], [[10.0, 50.0], [10.0, 50.0]], member=[[True, True], [True, False]])
    days = MarketTape.from_snapshot(market, CONFIG)
    assert days.day(1).member == b"\x01\x00"
    assert [terms.min_buy for terms in days.day(1).rules.terms] == [100, 200]
    assert {terms.min_buy for terms in MarketRules.of(market, TradingConfig(lot_shares=500)).terms} == {500}


def test_a_day_outside_and_a_price_of_another_unit_are_data_errors() -> None:
    for row in (-1, 2):
        with pytest.raises(DataError, match="outside the snapshot's 2 trading days"):
            tape(MAIN, [10.0, 10.0]).day(row)
    with pytest.raises(DataError, match="check the source's price columns"):
        tape(MAIN, [10.0, 1e9])


@pytest.mark.parametrize("factor", [0.0, -1.0, float("nan"), float("inf"), 1e9, 1e-9])
def test_an_impossible_factor_is_a_data_error_that_names_code_and_day(factor: float) -> None:
    with pytest.raises(DataError, match=r"factor of 600001\.SH on 1970-01-02 is"):
        tape(MAIN, [10.0, 10.0], factor=[1.0, factor])


def test_limits_and_scaled_numbers_are_exact_decimals() -> None:
    assert [limit_ppm(board, CONFIG) for board in Board] == [95_000, 195_000, 195_000, 295_000]
    assert scaled_int(0.1, 10**9) == 100_000_000
    assert scaled_int(8.5, 10**6) == 8_500_000
    assert scaled_int(0.005, 100) == 1, "halves go up"
    assert [ex_price_ticks(100_000, ratio) for ratio in (1_300_000_000, 2_000_000_000)] == [76_923, 50_000], "and ex-prices down"


def test_a_fill_day_does_not_depend_on_later_rows() -> None:
    chance = np.random.default_rng(5)
    opens = np.round(10 + chance.standard_normal((8, 3)), 2)
    factor = np.cumprod(chance.choice([1.0, 1.0, 1.02], size=opens.shape), axis=0)
    codes = [CODES["main2"], CHINEXT, MAIN]
    whole = MarketTape.from_snapshot(make_market(codes, opens, factor=factor), CONFIG)
    for row in range(8):
        cut = MarketTape.from_snapshot(make_market(codes, opens[: row + 1], factor=factor[: row + 1]), CONFIG)
        assert cut.day(row) == whole.day(row)
