"""How the market reads as integers: marks, limits, factor changes, suspensions. Overnight: locks
open, factor changes scale holdings, and no fen is made or lost.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import floor
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, strategies as st
from msgspec.structs import replace

from ktdeval.errors import DataError, InvariantError
from ktdeval.market.snapshots.snapshot import Board
from ktdeval.market.venues.venue import find_venue
from ktdeval.testing import snapshot_of_days
from ktdeval.trading.daily_settlement import (
    Settlement,
    check_step,
    holdings_minor,
    nav_minor,
    open_account,
    open_day,
    value_minor,
)
from ktdeval.trading.executor import settle
from ktdeval.trading.factor_events import FactorEvent, ex_price_ticks
from ktdeval.trading.market_rules import MarketRules
from ktdeval.trading.market_tape import MarketTape, limit_ppm
from ktdeval.trading.trading_day import TradingDay
from ktdeval.trading.types import Account, CorporateAction, Order, Position, Scale, TradingConfig
from ktdeval.trading.venue_terms import PPB, limits_of, scaled_int, terms_of
from support.market.trading_market import CODES
from support.searching import examples

CONFIG = TradingConfig()
MAIN = CODES["main"]
CHINEXT = CODES["chinext"]
STAR = CODES["star"]
BSE = CODES["bse"]


def tape(
    code: str,
    opens: list[float | None],
    closes: list[float | None] | None = None,
    **columns: list[float | None],
) -> MarketTape:
    """A tape of one asset; `columns` are its factor and volume by day."""
    rows = {}
    for name, values in columns.items():
        rows[name] = [[value] for value in values]

    market = snapshot_of_days(
        [code],
        [[price] for price in opens],
        None if closes is None else [[price] for price in closes],
        **rows,
    )

    return MarketTape.from_snapshot(market, CONFIG)


@pytest.mark.parametrize(
    ("code", "highest", "lowest"),
    [(MAIN, 10.94, 9.06), (CHINEXT, 11.94, 8.06), (STAR, 11.94, 8.06), (BSE, 12.94, 7.06)],
)
def test_trading_stops_half_a_point_before_the_boards_limit(
    code: str, highest: float, lowest: float
) -> None:
    for open_, up, down in (
        (highest, 0, 0),
        (highest + 0.01, 1, 0),
        (lowest, 0, 0),
        (lowest - 0.01, 0, 1),
    ):
        day = tape(code, [10.0, open_]).day(1)
        assert (day.limit_up[0], day.limit_down[0]) == (up, down), open_


def test_readers_of_a_day_cannot_change_the_market() -> None:
    day = tape(MAIN, [10.0, 10.5]).day(1)
    for prices in (day.open_ticks, day.close_ticks):
        with pytest.raises(TypeError, match="read-only"):
            prices[0] = 1  # type: ignore[index]


def test_factor_jitter_is_ignored_until_it_has_added_up() -> None:
    days = tape(MAIN, [10.0] * 5, factor=[1.0, 1.000004, 1.000008, 1.000012, 1.000012])
    assert [bool(days.day(row).events) for row in range(5)] == [False, False, False, True, False]
    assert tape(MAIN, [None, 10.0], factor=[1.0, 7.5]).day(1).events == {}, (
        "nothing is scaled before the first price"
    )


@pytest.mark.parametrize("row", [-1, 2])
def test_a_day_outside_is_a_data_error(row: int) -> None:
    with pytest.raises(DataError, match="outside the snapshot's 2 trading days"):
        tape(MAIN, [10.0, 10.0]).day(row)


def test_a_price_of_another_unit_is_a_data_error() -> None:
    with pytest.raises(DataError, match=r"^600001\.SH 1970-01-02: open 1e\+09 can't be traded"):
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
    assert [ex_price_ticks(100_000, ratio) for ratio in (1_300_000_000, 2_000_000_000)] == [
        76_923,
        50_000,
    ], "and ex-prices down"


def test_a_fill_day_does_not_depend_on_later_rows() -> None:
    chance = np.random.default_rng(5)
    opens = np.round(10 + chance.standard_normal((8, 3)), 2)
    factor = np.cumprod(chance.choice([1.0, 1.0, 1.02], size=opens.shape), axis=0)
    codes = [CODES["main2"], CHINEXT, MAIN]
    whole = MarketTape.from_snapshot(snapshot_of_days(codes, opens, factor=factor), CONFIG)

    for row in range(8):
        cut = MarketTape.from_snapshot(
            snapshot_of_days(codes, opens[: row + 1], factor=factor[: row + 1]), CONFIG
        )
        assert cut.day(row) == whole.day(row)


# ---- overnight


A_SHARE = find_venue("a_share")
RULES = MarketRules(
    (A_SHARE,) * 2, (terms_of(A_SHARE, CONFIG),) * 2, (Scale(),) * 2, limits_of(CONFIG)
)


def day_with(events: dict[int, FactorEvent], ticks: int = 100_000) -> TradingDay:
    """A fill day of two assets on which only factor changes matter."""
    one = b"\x01\x01"
    zero = b"\x00\x00"
    return TradingDay(1, [ticks, ticks], [ticks, ticks], one, one, zero, zero, events, RULES)


def change(previous_ticks: int, ratio_ppb: int) -> dict[int, FactorEvent]:
    return {0: FactorEvent(ratio_ppb, previous_ticks, ex_price_ticks(previous_ticks, ratio_ppb))}


# account at the close, factor change of asset 0, account at the open, corporate actions
OVERNIGHT = {
    "shares bought yesterday can be sold": (
        Account(0, {0: Position(300, 200), 1: Position(100)}),
        {},
        Account(0, {0: Position(300), 1: Position(100)}),
        [],
    ),
    "a split doubles the shares and pays nothing": (
        Account(700, {0: Position(300)}),
        change(100_000, 2 * PPB),
        Account(700, {0: Position(600)}),
        [CorporateAction(0, 2.0, 300, 600, 0)],
    ),
    # 1,000 shares at 10.00, ratio 1.0309: 1,030 shares at 9.700262… = 9,991.27; 8.73 in cash, 0.9
    # of a share.
    "a dividend is reinvested at the ex-price and the fraction is paid": (
        Account(0, {0: Position(1_000)}),
        change(100_000, 1_030_900_000),
        Account(873, {0: Position(1_030)}),
        [CorporateAction(0, 1.0309, 1_000, 1_030, 873)],
    ),
    "a split whose ex-price is no whole tick pays nothing": (
        Account(0, {0: Position(10_000)}),
        change(100_000, 3 * PPB),
        Account(0, {0: Position(30_000)}),
        [CorporateAction(0, 3.0, 10_000, 30_000, 0)],
    ),
    "a holding scaled below one share becomes cash": (
        Account(1, {0: Position(9)}),
        change(100_000, PPB // 10),
        Account(9_001, {}),
        [CorporateAction(0, 0.1, 9, 0, 9_000)],
    ),
    "a name not held is left alone": (
        Account(5, {1: Position(100)}),
        change(100_000, 2 * PPB),
        Account(5, {1: Position(100)}),
        [],
    ),
}


@pytest.mark.parametrize("name", OVERNIGHT)
def test_an_account_is_carried_overnight(name: str) -> None:
    account, events, opened, changes = OVERNIGHT[name]
    before = dict(account.positions)
    assert open_day(account, day_with(events)) == (opened, changes, [])
    assert account.positions == before, "the account given is not changed"


@examples(40)
@given(
    shares=st.integers(1, 10**7),
    previous=st.integers(1, 10**8),
    ratio_ppb=st.integers(10**6, 10**11),
)
@example(shares=1, previous=10**8, ratio_ppb=1_000_010_001)
@example(shares=333_333, previous=7, ratio_ppb=999_989_999)
def test_a_factor_change_makes_and_loses_no_fen(shares: int, previous: int, ratio_ppb: int) -> None:
    events = change(previous, ratio_ppb)
    opened, changes, _ = open_day(Account(0, {0: Position(shares)}), day_with(events))
    after = opened.positions.get(0, Position(0)).shares
    ratio = Fraction(ratio_ppb, 10**9)

    assert after == floor(shares * ratio)
    assert opened.cash_minor >= 0
    assert (
        abs(
            Fraction(shares * previous, 100)
            - after * Fraction(previous, 100) / ratio
            - opened.cash_minor
        )
        <= 1
    )
    assert [action.cash_minor for action in changes] == [opened.cash_minor]


def test_a_suspended_holding_is_worth_the_same_across_its_split() -> None:
    market = snapshot_of_days(
        [CODES["main"]], [[10.01], [None], [None]], factor=[[1.0], [1.0], [1.7]]
    )
    days = MarketTape.from_snapshot(market, CONFIG)
    account = Account(0, {0: Position(1_100)})
    before = nav_minor(account, days.day(1).close_ticks, RULES.units)
    opened, _, _ = open_day(account, days.day(2))
    marks = (days.day(2).open_ticks, days.day(2).close_ticks)

    assert (
        [nav_minor(opened, ticks, RULES.units) for ticks in marks]
        == [before, before]
        == [1_101_100] * 2
    )


def test_worth_is_that_of_the_last_mark_and_rounds_half_a_fen_up() -> None:
    market = snapshot_of_days(
        [CODES["main"]], [[10.0], [None], [None], [None]], closes=[[10.2], [None], [None], [None]]
    )
    delisted = MarketTape.from_snapshot(market, CONFIG).day(3)

    assert nav_minor(Account(3, {0: Position(100)}), delisted.close_ticks, RULES.units) == 102_003
    assert [value_minor(1, ticks, 100) for ticks in (49, 50, 149, 150)] == [0, 1, 1, 2]
    assert holdings_minor({0: Position(1), 1: Position(1)}, [50, 50], RULES.units) == 2, (
        "each position for itself"
    )
    assert open_account(CONFIG) == Account(100_000_000, {})


@pytest.mark.shared_data
def test_every_real_split_and_dividend_of_three_years_preserves_value(
    shared_data: Path,
) -> None:
    bars = pd.read_parquet(shared_data / "a_share" / "csi300_ever_daily.parquet")
    bars = bars[bars["traded"]]
    wide = {
        name: bars.pivot(index="date", columns="code", values=name)
        for name in ("raw_open", "raw_close", "factor", "volume")
    }
    market = snapshot_of_days(
        list(wide["factor"].columns),
        wide["raw_open"].to_numpy(),
        wide["raw_close"].to_numpy(),
        factor=wide["factor"].ffill().fillna(1.0).to_numpy(),
        volume=wide["volume"].to_numpy(),
    )
    days = MarketTape.from_snapshot(market, CONFIG)
    chance = np.random.default_rng(1)
    seen = 0

    for row, events in days.events.items():
        held = {asset: Position(int(chance.integers(1, 500)) * 100) for asset in events}
        before = days.day(row - 1)
        opened, changes, _ = open_day(Account(0, held), days.day(row))
        for action in changes:
            assert opened.positions[action.asset].shares == action.shares_after
            if days.tradable[row, action.asset]:
                value = (
                    action.shares_after
                    * Fraction(before.close_ticks[action.asset], 100)
                    / Fraction(action.ratio)
                )
            else:
                value = Fraction(
                    value_minor(action.shares_after, days.day(row).close_ticks[action.asset], 100)
                )

            worth = value_minor(action.shares_before, before.close_ticks[action.asset], 100)
            assert abs(value + action.cash_minor - worth) <= 1
            # What is paid is less than one share: nobody is forced out of a holding.
            lost_ticks = 0 if days.tradable[row, action.asset] else action.shares_after
            assert action.cash_minor * 100 <= before.close_ticks[action.asset] + lost_ticks + 100

        seen += len(changes)

    assert seen > 1_800


# --- each invariant catches the defect it is there for

MARKET = snapshot_of_days(
    [CODES["main2"], CODES["main"]],
    [[10.0, 20.0], [10.1, 10.2]],
    closes=[[10.0, 20.0], [10.3, 10.1]],
    factor=[[1.0, 1.0], [1.0, 1.97]],
)
DAY = MarketTape.from_snapshot(MARKET, CONFIG).day(1)
BEFORE = Account(10_000_000, {0: Position(500, 100), 1: Position(300)})
ACTION = (
    Order(0, "SELL", 0.5, "", shares=200),
    Order(1, "BUY", 0.5, "", shares=100),
    Order(None, "BUY", 0.5, "", shares=100),
)
GOOD = settle(BEFORE, DAY, ACTION, 0)


def tampered_after(cash: int = 0, **positions: Position) -> Settlement:
    """GOOD with other cash (by a difference) or positions (`p0`, `p1`, `p7`: shares 0 removes), NAV
    kept consistent.
    """
    held = {
        **GOOD.after.positions,
        **{int(name[1:]): position for name, position in positions.items()},
    }
    held = {asset: position for asset, position in held.items() if position != Position(0)}

    return replace(GOOD, after=Account(GOOD.after.cash_minor + cash, held))


def test_a_day_booked_by_the_executor_passes() -> None:
    assert [outcome.status for outcome in GOOD.outcomes] == ["filled", "filled", "rejected"]
    assert GOOD.after.positions == {0: Position(300), 1: Position(691, 100)}
    assert len(GOOD.corporate_actions) == 1
    assert GOOD.nav_minor == GOOD.after.cash_minor + 30 * 10_300 + 691 * 1_010

    check_step(GOOD, DAY, decided_row=0)

    with pytest.raises(InvariantError, match="not before the fill"):
        check_step(GOOD, DAY, decided_row=1)


CHANGE = GOOD.corporate_actions[0]
BREACHES: dict[str, tuple[str, Callable[[], Settlement]]] = {
    "cash appears": ("the fills give", lambda: tampered_after(cash=1)),
    "cash is negative": (
        "cash is negative",
        lambda: tampered_after(cash=-GOOD.after.cash_minor - 1),
    ),
    "shares appear": ("different numbers", lambda: tampered_after(p0=Position(400))),
    "a lock is forgotten": ("different numbers", lambda: tampered_after(p1=Position(691, 0))),
    "more is locked than held": ("of them locked", lambda: tampered_after(p0=Position(300, 301))),
    "an empty position is kept": (
        "holds 0 shares",
        lambda: replace(
            GOOD, after=Account(GOOD.after.cash_minor, {**GOOD.after.positions, 7: Position(0)})
        ),
    ),
    "a position vanishes": ("a position is missing", lambda: tampered_after(p0=Position(0))),
    "NAV is off by a fen": (
        "is not the sum of cash",
        lambda: replace(GOOD, nav_minor=GOOD.nav_minor + 1),
    ),
    "holdings and NAV are off together": (
        "is not the sum of cash",
        lambda: replace(GOOD, nav_minor=GOOD.nav_minor + 1, holdings_minor=GOOD.holdings_minor + 1),
    ),
    "an order has no outcome": (
        "but 2 outcomes",
        lambda: replace(GOOD, outcomes=GOOD.outcomes[:2]),
    ),
    "a fill is booked twice": (
        "the fills give",
        lambda: replace(GOOD, outcomes=(GOOD.outcomes[0], *GOOD.outcomes[:2])),
    ),
    "a split makes money": (
        "creates or loses money",
        lambda: replace(
            GOOD, corporate_actions=(replace(CHANGE, cash_minor=CHANGE.cash_minor + 1),)
        ),
    ),
    "a split takes cash": (
        "takes cash",
        lambda: replace(GOOD, corporate_actions=(replace(CHANGE, cash_minor=-1),)),
    ),
    "a split is booked twice": (
        "does not start from the actual holding",
        lambda: replace(GOOD, corporate_actions=(CHANGE, CHANGE)),
    ),
}


@pytest.mark.parametrize("name", BREACHES)
def test_a_defect_of_the_books_is_caught(name: str) -> None:
    message, defect = BREACHES[name]
    with pytest.raises(InvariantError, match=f"^fill day 1: .*{message}.*defect of the engine"):
        check_step(defect(), DAY, decided_row=0)
